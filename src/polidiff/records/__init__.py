"""What the stages hand to each other. Records import nothing from the stages."""

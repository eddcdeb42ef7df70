"""Results as pages, pictures and Markdown: functions of the records alone."""

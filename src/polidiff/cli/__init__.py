"""The command line: each command parses, loads, calls one public function, renders, writes."""

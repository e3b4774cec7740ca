"""One end of one connection: tasks, deadlines and the two request tables. Knows no tools, no resources."""

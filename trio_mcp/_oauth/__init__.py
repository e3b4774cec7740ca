"""The rules of OAuth, for both sides: tables, generators and plain functions. No I/O, no Trio, no clock."""

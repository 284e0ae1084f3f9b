"""What commands print: tables, drawings, descriptions."""

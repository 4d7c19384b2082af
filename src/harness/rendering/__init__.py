"""What several views share and none of them owns: safe text, fitted lines, short numbers, who belongs to whom."""

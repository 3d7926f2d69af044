"""What people type, checked at the edge before an action sees it."""

"""Every shape that is stored, sealed, sent or handed from room to room. Pure; the ground floor: it imports no room."""

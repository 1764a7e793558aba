"""What is known of sizes that vary: their bounds. Plain numbers here, without sympy."""

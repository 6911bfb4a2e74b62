package ratelimit

// ForgetToldStale makes the process report old profiles again.
func ForgetToldStale() { toldStale.Clear() }

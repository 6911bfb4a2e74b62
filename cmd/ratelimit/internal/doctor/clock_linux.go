package doctor

import "syscall"

// clockIsKept reports whether a time service keeps the clock, as the kernel knows it.
func clockIsKept() (is, known bool) {
	const unsynchronised = 5 // TIME_ERROR of adjtimex(2)
	state, err := syscall.Adjtimex(new(syscall.Timex))
	return state != unsynchronised, err == nil
}

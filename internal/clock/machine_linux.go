package clock

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// machineTime reads the clock that Go's monotonic readings are of, too.
func machineTime() (nanos int64, ok bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, false
	}
	return t.Nano(), true
}

// bootOfMachine names the start of the machine and the time namespace of the process, which
// a container may have of its own; "" where the start is not known.
func bootOfMachine() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, _ := os.Readlink("/proc/self/ns/time") // kernels before 5.6 have none
	return strings.TrimSpace(string(id)) + " " + space
}

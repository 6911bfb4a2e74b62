//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// apart keeps the signals of the terminal from a process that is about to be started.
func apart(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

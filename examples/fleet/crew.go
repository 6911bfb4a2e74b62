package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// crew is the processes of the machines. Only one goroutine may use it.
type crew struct {
	program string
	running map[int]*process // by the number of the machine
	news    chan news        // from all machines; unbuffered
}

// process is one machine from its start to its end.
type process struct {
	machine  int
	command  *exec.Cmd
	lifeline io.WriteCloser // it ends when this is closed
	killed   bool           // by us
}

// news is an event of a process, or its end.
type news struct {
	from  *process
	event event
	ended bool
	err   error // how it ended
}

func newCrew() (*crew, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return &crew{program: program, running: make(map[int]*process), news: make(chan news)}, nil
}

// start starts a machine. Its events, and then its end, come through news.
func (c *crew) start(machine int, j job) error {
	command := exec.Command(c.program, machineArg)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start machine %d: %w", machine, err)
	}
	in, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return fmt.Errorf("start machine %d: %w", machine, err)
	}
	p := &process{machine: machine, command: command, lifeline: in}
	c.running[machine] = p
	go func() {
		err := c.listen(p, out)
		c.news <- news{from: p, ended: true, err: errors.Join(err, command.Wait())}
	}()
	if err := json.NewEncoder(in).Encode(j); err != nil {
		return fmt.Errorf("start machine %d: %w", machine, err)
	}
	return nil
}

// listen passes the events of a machine on until it has ended.
func (c *crew) listen(p *process, out io.Reader) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			io.Copy(io.Discard, out)
			return fmt.Errorf("read event %q: %w", lines.Bytes(), err)
		}
		c.news <- news{from: p, event: e}
	}
	return lines.Err()
}

// kill ends a machine without giving it any chance to do something about it.
func (c *crew) kill(machine int) error {
	p := c.running[machine]
	if p == nil {
		return nil
	}
	p.killed = true
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill machine %d: %w", machine, err)
	}
	return nil
}

// dismiss asks all machines to end.
func (c *crew) dismiss() {
	for _, p := range c.running {
		p.lifeline.Close() // that it has ended already is all right
	}
}

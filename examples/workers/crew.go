package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// crew is the processes of the workers. Only one goroutine may use it.
type crew struct {
	program string
	running map[int]*process // by the number of the worker
	exits   chan *process    // those that have ended
	news    chan news        // closed when the last process has ended

	pipe   *os.File // to which the workers write
	closed bool
}

// process is one worker, from its start to its end.
type process struct {
	worker   int
	command  *exec.Cmd
	lifeline io.Closer // it ends when this is closed
	killed   bool      // by us
	err      error     // how it ended
}

// news is an event, or the error of a line that is none.
type news struct {
	event event
	err   error
}

func newCrew() (*crew, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	c := &crew{
		program: program, running: make(map[int]*process),
		exits: make(chan *process), news: make(chan news), pipe: out,
	}
	go c.listen(in)
	return c, nil
}

// listen passes on the reports of the workers.
func (c *crew) listen(in *os.File) {
	defer in.Close()
	defer close(c.news)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		e, err := parseEvent(lines.Bytes())
		c.news <- news{e, err}
	}
	if err := lines.Err(); err != nil {
		c.news <- news{err: fmt.Errorf("listen to the workers: %w", err)}
		io.Copy(io.Discard, in) // until they have ended
	}
}

func (c *crew) start(j job) error {
	command := exec.Command(c.program, j.args()...)
	command.Stdout, command.Stderr = c.pipe, os.Stderr
	lifeline, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return fmt.Errorf("start worker %d: %w", j.worker, err)
	}
	p := &process{worker: j.worker, command: command, lifeline: lifeline}
	c.running[j.worker] = p
	go func() {
		p.err = command.Wait()
		c.exits <- p
	}()
	return nil
}

// kill ends a worker without giving it any chance to do something about it.
func (c *crew) kill(worker int) error {
	p := c.running[worker]
	if p == nil {
		return nil
	}
	p.killed = true
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill worker %d: %w", worker, err)
	}
	return nil
}

// ended notes that a process has ended.
func (c *crew) ended(p *process) {
	if c.running[p.worker] == p {
		delete(c.running, p.worker)
	}
}

// dismiss asks all workers to end.
func (c *crew) dismiss() {
	for _, p := range c.running {
		p.lifeline.Close() // that it has ended already is all right
	}
}

// close ends the news, once all workers have ended.
func (c *crew) close() {
	if !c.closed {
		c.closed = true
		c.pipe.Close()
	}
}

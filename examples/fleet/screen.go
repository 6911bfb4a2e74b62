package main

import (
	"fmt"
	"io"
	"time"
)

// screen shows a line for each machine: on a terminal in place, over and over; elsewhere as new
// lines every five seconds.
type screen struct {
	out   io.Writer
	live  bool
	shown int // lines that are to be written over
}

func newScreen(out io.Writer, live bool) *screen { return &screen{out: out, live: live} }

// every returns how often the lines are to be shown.
func (s *screen) every() time.Duration {
	if s.live {
		return 100 * time.Millisecond
	}
	return 5 * time.Second
}

// show shows the lines, in place of the last ones on a terminal.
func (s *screen) show(lines []string) {
	s.back()
	for _, line := range lines {
		s.write(line)
	}
	if s.live {
		s.shown = len(lines)
	}
}

// note writes a line that stays.
func (s *screen) note(line string) {
	s.back()
	s.write(line)
}

// back moves the cursor to where the last lines begin.
func (s *screen) back() {
	if s.shown > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.shown)
		s.shown = 0
	}
}

func (s *screen) write(line string) { fmt.Fprintln(s.out, line) }

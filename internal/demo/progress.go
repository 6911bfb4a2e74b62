package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	liveEvery  = 100 * time.Millisecond
	plainEvery = 5 * time.Second
)

// Progress shows how a run goes: on a terminal in one line that is written over and over,
// elsewhere in a new line every five seconds. Make one with [NewProgress]. It is safe for
// concurrent use.
type Progress struct {
	out  io.Writer
	live bool
	line func() string

	mu    sync.Mutex
	width int // characters of the line on the terminal
}

// NewProgress returns a progress that writes what line returns to out. Live is for a terminal.
func NewProgress(out io.Writer, live bool, line func() string) *Progress {
	return &Progress{out: out, live: live, line: line}
}

// Start shows the state at once and then at intervals, until the function that it returns is
// called, which shows it for the last time.
func (p *Progress) Start() (stop func()) {
	interval := plainEvery
	if p.live {
		interval = liveEvery
	}
	p.Show()
	end := Every(interval, p.Show)
	return func() {
		end()
		p.finish()
	}
}

// Show writes the present state.
func (p *Progress) Show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live {
		fmt.Fprintln(p.out, p.line())
		return
	}
	p.overwrite(p.line())
}

// Note writes a message in a line of its own.
func (p *Progress) Note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	message := fmt.Sprintf(format, args...)
	if !p.live {
		fmt.Fprintln(p.out, message)
		return
	}
	p.overwrite(message)
	fmt.Fprintln(p.out)
	p.width = 0
}

// finish writes the last state and leaves the line.
func (p *Progress) finish() {
	p.Show()
	if p.live {
		fmt.Fprintln(p.out)
	}
}

// overwrite replaces the line on the terminal. It clears the rest of the old line with spaces,
// because some terminals know no escape sequence.
func (p *Progress) overwrite(line string) {
	width := utf8.RuneCountInString(line)
	fmt.Fprint(p.out, "\r", line, strings.Repeat(" ", max(p.width-width, 0)))
	p.width = width
}

// Every calls do at each interval in a goroutine of its own. The function that it returns ends
// that and waits for it.
func Every(interval time.Duration, do func()) (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				do()
			case <-quit:
				return
			}
		}
	})
	return func() {
		close(quit)
		wg.Wait()
	}
}

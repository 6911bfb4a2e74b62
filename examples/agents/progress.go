package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"dappco.re/go/core/go-ratelimit"
)

const (
	liveEvery  = 100 * time.Millisecond
	plainEvery = 5 * time.Second
)

// progress shows how the run goes: on a terminal in one line that is written
// over and over, elsewhere in a new line now and then. Its methods are safe for
// concurrent use.
type progress struct {
	out  io.Writer
	live bool
	line func() string

	mu    sync.Mutex
	width int // characters of the line that stands on the terminal
}

func newProgress(out io.Writer, live bool, line func() string) *progress {
	return &progress{out: out, live: live, line: line}
}

// interval is how often show is to be called.
func (p *progress) interval() time.Duration {
	if p.live {
		return liveEvery
	}
	return plainEvery
}

// show writes the present state.
func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live {
		fmt.Fprintln(p.out, p.line())
		return
	}
	p.overwrite(p.line())
}

// note writes a message in a line of its own.
func (p *progress) note(format string, args ...any) {
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
func (p *progress) finish() {
	p.show()
	if p.live {
		fmt.Fprintln(p.out)
	}
}

// overwrite replaces the line on the terminal. It clears the rest of the old line with
// spaces, because some terminals know no escape sequence.
func (p *progress) overwrite(line string) {
	width := utf8.RuneCountInString(line)
	fmt.Fprint(p.out, "\r", line, strings.Repeat(" ", max(p.width-width, 0)))
	p.width = width
}

// progressLine is the state of a run, in 80 columns. before is how many of the
// total were answered in earlier runs, and d is about the call that comes next.
func progressLine(elapsed time.Duration, before, total int, c counts, d ratelimit.Decision) string {
	wait := "-"
	if c.waiting > 0 {
		wait = fmt.Sprintf("%.1fs", d.RetryAfter.Seconds())
	}
	return fmt.Sprintf("%3.0fs  done %d/%d  RPM %s  TPM %s  next wait %s  429s %d",
		elapsed.Seconds(), before+c.answered, total,
		usedText(d.Stats.RPM, d.Stats.MaxRPM), usedText(d.Stats.TPM, d.Stats.MaxTPM), wait, c.refused)
}

// usedText is how much of a limit is used.
func usedText(used, limit int) string {
	if limit == 0 {
		return group(used)
	}
	return group(used) + "/" + group(limit)
}

// every calls do at each interval in a goroutine of its own. The function that
// it returns ends that and waits for it.
func every(interval time.Duration, do func()) (stop func()) {
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

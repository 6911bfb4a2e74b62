package debounce_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// step is one call of a script.
type step struct {
	at    time.Duration
	op    string
	value int // of trigger; of stop, the milliseconds until its context ends, or 0
}

const (
	opTrigger = "trigger"
	opFlush   = "flush"
	opCancel  = "cancel"
	opPending = "pending"
	opStop    = "stop"
)

// note is something that happened: a run began, a call returned.
type note struct {
	at   time.Duration
	what string
}

func (n note) String() string {
	return strconv.FormatFloat(float64(n.at)/float64(time.Millisecond), 'f', -1, 64) + " " + n.what
}

const noteFlushed = "flushed"

func noteRun(value int) string        { return fmt.Sprintf("run %d", value) }
func notePending(pending bool) string { return fmt.Sprintf("pending %t", pending) }
func noteStopped(err error) string    { return fmt.Sprintf("stopped %v", err) }

var errDeadline = context.DeadlineExceeded

// stopTimeout is how long the context of a stop lasts. The nanoseconds keep it from
// ending together with something else.
func stopTimeout(ms int) time.Duration {
	if ms == 0 {
		return 24 * time.Hour
	}
	return time.Duration(ms)*time.Millisecond + 500
}

// sortNotes puts what happens at one instant on several goroutines in one order.
func sortNotes(notes []note) []note {
	slices.SortStableFunc(notes, func(a, b note) int {
		aRuns, bRuns := strings.HasPrefix(a.what, "run"), strings.HasPrefix(b.what, "run")
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case aRuns && !bRuns:
			return -1
		case bRuns && !aRuns:
			return 1
		case aRuns: // the order of runs is what is tested
			return 0
		}
		return strings.Compare(a.what, b.what)
	})
	return notes
}

// settle has everything happen in a bubble that still does.
func settle() {
	time.Sleep(2 * time.Hour)
	synctest.Wait()
}

// noTime is how long an action takes that takes none.
func noTime(int) time.Duration { return 0 }

// takes returns how long an action takes that always takes the same.
func takes(ms int) func(int) time.Duration {
	return func(int) time.Duration { return time.Duration(ms) * time.Millisecond }
}

// playScript runs a script with what make makes, in a bubble. A call that waits
// does not hold up the script. Before each step, what the one before it set off has
// come to rest.
func playScript(t *testing.T, takes func(int) time.Duration, script []step, make func(action func(int)) *debounce.Debouncer[int]) (notes []note) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		write := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			notes = append(notes, note{time.Since(start), what})
		}
		running := false // not guarded: the race detector sees runs that overlap
		d := make(func(value int) {
			if running {
				t.Errorf("value %d runs while another does", value)
			}
			running = true
			write(noteRun(value))
			if d := takes(value); d > 0 {
				time.Sleep(d)
			}
			running = false
		})
		for _, s := range script {
			time.Sleep(s.at - time.Since(start))
			switch s.op {
			case opTrigger:
				d.Trigger(s.value)
			case opCancel:
				d.Cancel()
			case opPending:
				write(notePending(d.Pending()))
			case opFlush:
				go func() {
					d.Flush()
					write(noteFlushed)
				}()
			case opStop:
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), stopTimeout(s.value))
					defer cancel()
					write(noteStopped(d.Stop(ctx)))
				}()
			default:
				t.Fatalf("unknown step %q", s.op)
			}
			if got := time.Since(start); got != s.at {
				t.Errorf("%s at %v returned at %v", s.op, s.at, got)
			}
			synctest.Wait()
		}
		settle()
	})
	return sortNotes(notes)
}

// parseScript reads "0 trigger 1, 40 flush": milliseconds, what is called, and a
// number if it has one. Steps without a time are at that of the one before.
func parseScript(t *testing.T, text string) (script []step) {
	t.Helper()
	var at time.Duration
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Fields(part)
		if ms, err := strconv.Atoi(words[0]); err == nil {
			at = time.Duration(ms) * time.Millisecond
			words = words[1:]
		}
		s := step{at: at, op: words[0]}
		if len(words) > 1 {
			n, err := strconv.Atoi(words[1])
			if err != nil {
				t.Fatalf("script %q: %v", text, err)
			}
			s.value = n
		}
		script = append(script, s)
	}
	return script
}

func formatNotes(notes []note) string {
	texts := make([]string, len(notes))
	for i, n := range notes {
		texts[i] = n.String()
	}
	return strings.Join(texts, ", ")
}

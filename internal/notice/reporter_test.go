package notice_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/notice"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

type refusal int // as those of SQLite

func (r refusal) Error() string { return fmt.Sprint("refused ", int(r)) }
func (r refusal) Code() int     { return int(r) }

func TestReportsEachKindOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		r := notice.NewReporter(func(err error) { got = append(got, err.Error()) })
		defer r.Stop()
		report := func(errs ...error) {
			for _, err := range errs {
				r.Report(err)
				synctest.Wait()
			}
		}
		corrupt := state.Corrupt("f", io.EOF)
		report(fmt.Errorf("a: %w", syscall.ENOSPC), fmt.Errorf("b: %w", syscall.ENOSPC), syscall.EIO, refusal(5), refusal(6), refusal(5), corrupt, corrupt)
		want := []string{"a: no space left on device", "input/output error", "refused 5", "refused 6", corrupt.Error()}
		if !slices.Equal(got, want) {
			t.Errorf("reported %q, want %q", got, want)
		}
		time.Sleep(time.Second - 1)
		report(syscall.EIO)
		time.Sleep(time.Nanosecond)
		report(syscall.EIO)
		if want = append(want, "input/output error"); !slices.Equal(got, want) {
			t.Errorf("reported %q, want %q", got, want)
		}
	})
}

func TestStopDoesNotWaitForTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		var r *notice.Reporter
		r = notice.NewReporter(func(error) { calls++; r.Stop() })
		r.Report(errors.New("first"))
		synctest.Wait()
		r.Report(errors.New("second"))
		synctest.Wait()
		if calls != 1 {
			t.Errorf("%d calls, want 1", calls)
		}
	})
}

func TestNilReportsNothing(t *testing.T) {
	var r *notice.Reporter
	r.Report(io.EOF)
	r.ReportAs(1, io.EOF)
	r.Stop()
}

// unknown is an error of which each value is a kind of its own for OnError.
type unknown string

func (u unknown) Error() string { return "unknown " + string(u) }

// lines is a log that a timer may write.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns what was written since the last time.
func (l *lines) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := bytes.Clone(l.text.Bytes())
	l.text.Reset()
	return text
}

// Without a function, errors go to the log: one a minute of each type or number.
func TestWithoutAFunctionErrorsAreLogged(t *testing.T) {
	var log lines
	was, flags := slog.Default(), stdlog.Flags()
	defer func() {
		slog.SetDefault(was)
		stdlog.SetOutput(os.Stderr)
		stdlog.SetFlags(flags)
	}()
	synctest.Test(t, func(t *testing.T) {
		r := notice.NewReporter(nil)
		defer r.Stop()
		// The default is that of the moment of the error.
		slog.SetDefault(slog.New(slog.NewJSONHandler(&log, nil)))
		began := time.Now()
		var got []string
		report := func(after time.Duration, errs ...error) {
			time.Sleep(after - time.Since(began))
			synctest.Wait()
			for _, err := range errs {
				r.ReportAs(err, err)
				synctest.Wait()
			}
			for line := range bytes.Lines(log.take()) {
				var is struct{ Level, Error string }
				if err := json.Unmarshal(line, &is); err != nil || is.Level != "WARN" {
					t.Errorf("%s: %v", line, err)
				}
				got = append(got, fmt.Sprint(after, " ", is.Error))
			}
		}
		report(0, unknown("a"), unknown("b"), fmt.Errorf("save: %w", syscall.ENOSPC), unknown("c"))
		report(time.Minute-1, unknown("d"), syscall.ENOSPC, syscall.EIO)
		report(time.Minute+time.Second, unknown("e"), unknown("f"), syscall.EIO)
		report(2*time.Minute + time.Millisecond)
		report(2*time.Minute+time.Second, unknown(strings.Repeat("long ", 1000)))
		report(3*time.Minute + time.Millisecond)
		want := []string{
			"0s unknown a", "0s save: no space left on device", "59.999999999s input/output error",
			"1m1s unknown d", "1m1s no space left on device", // since the end of their minute
			"2m0.001s unknown f", "2m0.001s input/output error",
			"3m0.001s unknown " + strings.Repeat("long ", 198) + "lo…",
		}
		slices.Sort(got) // those of one moment come in any order
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("logged %q, want %q", got, want)
		}
	})
}

// Many kinds at once, as of many models without a quota, take time in proportion to their number.
func TestManyKinds(t *testing.T) {
	const kinds = 50_000
	told := make(chan error, kinds)
	r := notice.NewReporter(func(err error) { told <- err })
	defer r.Stop()
	began := time.Now()
	for kind := range kinds {
		r.ReportAs(kind, io.EOF)
	}
	for range kinds {
		<-told
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%d reports took %v", kinds, took)
	}
}

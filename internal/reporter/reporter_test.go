package reporter_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/reporter"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

type refusal int // as those of SQLite

func (r refusal) Error() string { return fmt.Sprint("refused ", int(r)) }
func (r refusal) Code() int     { return int(r) }

func TestReportsEachKindOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		r := reporter.New(func(err error) { got = append(got, err.Error()) })
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
		var r *reporter.Reporter
		r = reporter.New(func(error) { calls++; r.Stop() })
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
	r := reporter.New(nil)
	r.Report(io.EOF)
	r.Stop()
}

// Many kinds at once, as of many models without a quota, take time in proportion to their number.
func TestManyKinds(t *testing.T) {
	const kinds = 50_000
	told := make(chan error, kinds)
	r := reporter.New(func(err error) { told <- err })
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

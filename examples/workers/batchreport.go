package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// batchTally is what the processes have told. It is safe for concurrent use.
type batchTally struct {
	mu       sync.Mutex
	open     map[int]int // calls by process
	admitted int
	answered int
	tokens   int // of the answers, as the limiter counted them
	cut      int // calls that were open when their process was killed
	kills    int
}

func newBatchTally() *batchTally { return &batchTally{open: make(map[int]int)} }

func (t *batchTally) hear(e event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !e.Done {
		t.admitted++
		t.open[e.PID]++
		return
	}
	t.open[e.PID]--
	t.answered++
	t.tokens += e.Tokens
}

// lost notes that a process was killed. What it told before that may be heard later.
func (t *batchTally) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kills++
}

// settle counts what the processes that were killed left open, once all have ended.
func (t *batchTally) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut = 0
	for _, n := range t.open {
		t.cut += n
	}
}

func (b *batch) introduce(out io.Writer) {
	fmt.Fprintf(out, `%s share a batch of %s and, in one SQLite file, the quota of a local server:
%s requests and %s tokens a minute. The server answers 429 to more, and keeps a log.
What to look for: each worker is a process, which is killed once (SIGKILL) and goes on where it
was; each prompt gets its answer; and the server never answers 429.

`, demo.Count(b.cfg.workers, "worker"), demo.Count(b.cfg.prompts, "prompt"), demo.Limit(b.cfg.rpm), demo.Limit(b.cfg.tpm))
}

func (b *batch) line() string {
	s := b.limiter.Stats(model)
	b.tally.mu.Lock()
	defer b.tally.mu.Unlock()
	return fmt.Sprintf("%3.0fs  %s answers to %s prompts  RPM %s  TPM %s  429s %d", time.Since(b.started).Seconds(),
		demo.Group(b.tally.answered), demo.Group(b.cfg.prompts), part(s.RPM, s.MaxRPM), part(s.TPM, s.MaxTPM),
		b.server.Stats(model).Refused)
}

// logged is what the server's log says.
type logged struct {
	calls, tokens, early   int // of this run; early is in its first two seconds
	refused                int // of all runs
	fullest, fullestTokens int // requests and tokens of a minute
	last                   int // requests of the last minute
}

func (b *batch) read(records []fakeprovider.Record, now time.Time) (l logged) {
	var minute []fakeprovider.Record
	sum := 0 // tokens of the minute
	for _, r := range records {
		if r.Refused {
			l.refused++
			continue
		}
		minute, sum = append(minute, r), sum+r.Charge[fakeprovider.TPM]
		for r.At.Sub(minute[0].At) >= time.Minute {
			minute, sum = minute[1:], sum-minute[0].Charge[fakeprovider.TPM]
		}
		l.fullest, l.fullestTokens = max(l.fullest, len(minute)), max(l.fullestTokens, sum)
		if now.Sub(r.At) < time.Minute {
			l.last++
		}
		if r.At.Before(b.started) {
			continue
		}
		l.calls, l.tokens = l.calls+1, l.tokens+r.Charge[fakeprovider.TPM]
		if r.At.Sub(b.started) <= 2*time.Second {
			l.early++
		}
	}
	return l
}

// report writes the table and the verdict, which it returns as an error if it is bad.
func (b *batch) report(out io.Writer, records []fakeprovider.Record) error {
	b.tally.settle()
	now := time.Now()
	l, counted := b.read(records, now), b.limiter.Stats(model).RPM
	done := 0
	for worker := 1; worker <= b.cfg.workers; worker++ {
		ids, err := readDone(b.job(worker).donePath())
		if err != nil {
			return err
		}
		done += len(ids)
	}
	t := demo.NewTable(out)
	fmt.Fprintln(out)
	t.Row("prompts", "%s answered", demo.Share(done, b.cfg.prompts))
	t.Row("time", "%.1fs", now.Sub(b.started).Seconds())
	t.Row("killed", "%s, with %s under way, whose prompts were sent again",
		demo.Count(b.tally.kills, "worker"), demo.Count(b.tally.cut, "call"))
	t.Row("429s", "%d in the server's log", l.refused)
	t.Row("first 2s", "%s admitted", demo.Count(l.early, "call"))
	t.Row("fullest minute", "%s requests, %s tokens", demo.Share(l.fullest, b.cfg.rpm), demo.Share(l.fullestTokens, b.cfg.tpm))
	t.Row("", "(a full minute's requests go out at once; tokens are left because requests run out first)")
	t.Row("counts", "the workers %s; the server's log %s", demo.Count(b.tally.admitted, "call"), demo.Count(l.calls, "call"))
	t.Row("", "tokens of the answers %s; the server's log, with the calls that were cut off, %s",
		demo.Group(b.tally.tokens), demo.Group(l.tokens))
	t.Row("", "in the last minute: the SQLite file %s, the server's log %s", demo.Count(counted, "call"), demo.Count(l.last, "call"))
	t.Row("", "(the file counts a call up to 250ms longer, as it may reach the server that much later)")
	wrong := b.verdict(l, counted, done)
	if wrong == nil && b.ending {
		t.Row("verdict", "no 429 so far")
	} else {
		t.Verdict("every prompt has its answer, no 429, and no call is lost by the kills", wrong)
	}
	t.Flush()
	return wrong
}

// verdict returns what is wrong: counted is what the file counts in the last minute, and done how
// many prompts have an answer.
func (b *batch) verdict(l logged, counted, done int) error {
	var errs []error
	if l.refused > 0 {
		errs = append(errs, fmt.Errorf("the server refused %s", demo.Count(l.refused, "call")))
	}
	if l.calls > b.tally.admitted || l.calls < b.tally.admitted-b.tally.cut {
		errs = append(errs, errors.New("the server got another number of calls"))
	}
	if counted < l.last {
		errs = append(errs, errors.New("the file counts fewer calls than the server"))
	}
	if done != b.cfg.prompts && !b.ending {
		errs = append(errs, fmt.Errorf("%s without an answer", demo.Count(b.cfg.prompts-done, "prompt")))
	}
	return errors.Join(errs...)
}

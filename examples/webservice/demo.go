package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"github.com/openai/openai-go/v3/option"
)

// callers is how many call at once.
const callers = 200

var errInterrupted = errors.New("interrupted: start it again, and it goes on inside the same minute")

// booked is what the service has counted, by the events of its Transport.
type booked struct {
	mu        sync.Mutex
	calls     int
	estimated int // tokens
	tokens    int
	longest   time.Duration // that a call waited and was admitted
}

func (b *booked) event(e llmhttp.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e.Kind {
	case llmhttp.EventAdmitted:
		b.longest = max(b.longest, e.Wait)
	case llmhttp.EventSettled:
		b.calls++
		b.estimated += e.Estimated.PromptTokens + e.Estimated.OutputTokens
		b.tokens += e.Settled.PromptTokens + e.Settled.OutputTokens
	}
}

// showcase is one run of the demo.
type showcase struct {
	out      io.Writer
	provider *fakeprovider.Host
	service  *service
	booked   *booked
	load     *load

	before   ratelimit.ModelStats // of an earlier run
	began    time.Time
	underWay int // answers when the shutdown began
}

// runDemo runs the service with a provider and callers of its own, and compares the counts of
// both sides. Its error is a refusal by the provider, a difference, or an answer that is not
// whole.
func runDemo(ctx context.Context, folder string, short bool, out io.Writer) (err error) {
	folder = filepath.Join(folder, "demo")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	d := &showcase{out: out, booked: &booked{}}
	if d.provider, err = startProvider(folder, quota); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.provider.Close()) }()
	d.service, err = newService(folder, d.booked.event,
		option.WithBaseURL(d.provider.URL+"/v1/"), option.WithAPIKey("none"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, d.service.close())
	}
	tries := 2
	if short {
		tries = 1
	}
	d.load = newLoad("http://"+listener.Addr().String(), callers, tries)
	d.before = d.service.limiter.Stats(model)
	d.introduce(tries)
	d.began = time.Now()
	if err := errors.Join(d.run(ctx, listener), d.service.close()); err != nil {
		return err
	}
	records, err := d.provider.Records()
	if err != nil {
		return err
	}
	if ctx.Err() == nil { // the run is whole: the next one begins a new log and an empty minute
		d.provider.Finish()
		err = os.Remove(filepath.Join(folder, "usage.yaml"))
	}
	err = errors.Join(d.report(records, d.provider.Journal()), err)
	if err == nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

func (d *showcase) introduce(tries int) {
	fmt.Fprintf(d.out, `%d callers at once ask a web service, which streams them the answers of a provider.
The provider allows %d requests and %s tokens a minute, answers 429 to more, and keeps a log.
What to look for: the service uses all of that at once and gets no 429. It tells the other
callers within %v when to come back (503 and Retry-After). In the end it is stopped while
answers still stream, and they arrive whole.
`, callers, quota.MaxRPM, demo.Group(quota.MaxTPM), patience)
	if tries > 1 {
		fmt.Fprintln(d.out, "Those with a 503 come back once, so it takes little more than a minute.")
	}
	fmt.Fprintln(d.out)
	if d.before.RPM > 0 {
		fmt.Fprintf(d.out, "An earlier run was interrupted: its %s and %s tokens of the last minute still\ncount, in the service's file and in the provider's log.\n\n",
			demo.Count(d.before.RPM, "request"), demo.Group(d.before.TPM))
	}
}

// run serves the callers, and stops the service once each of them knows whether it gets an
// answer, or ctx ends.
func (d *showcase) run(ctx context.Context, listener net.Listener) error {
	serving, shutDown := context.WithCancel(context.Background())
	defer shutDown()
	served := make(chan error, 1)
	go func() { served <- d.service.serve(serving, listener) }()
	stopShowing := demo.NewProgress(d.out, demo.IsTerminal(d.out), d.line).Start()
	defer stopShowing()
	go func() {
		select {
		case <-d.load.decided:
		case <-ctx.Done():
		}
		d.underWay = d.load.counts().streaming
		shutDown()
	}()
	d.load.run(ctx)
	return <-served
}

// line is the state of a run, in 100 columns.
func (d *showcase) line() string {
	c, s := d.load.counts(), d.service.limiter.Stats(model)
	return fmt.Sprintf("%3.0fs  %d asking, %d streaming, %d whole, %d away after 503  RPM %d/%d  TPM %s/%s",
		time.Since(d.began).Seconds(), c.asking, c.streaming, c.whole, c.away,
		s.RPM, s.MaxRPM, demo.Group(s.TPM), demo.Group(s.MaxTPM))
}

// audit is what the provider's log says of this run.
type audit struct {
	calls, refused, tokens int
	early                  int      // admitted within the patience of the first callers
	minutes                [][2]int // requests and tokens of each minute since the start
}

func (d *showcase) audit(records []fakeprovider.Record) (a audit) {
	for _, r := range records {
		at := r.At.Sub(d.began)
		switch {
		case at < 0:
			continue
		case r.Refused:
			a.refused++
			continue
		case at <= patience:
			a.early++
		}
		a.calls++
		a.tokens += r.Charge[fakeprovider.TPM]
		for len(a.minutes) <= int(at/time.Minute) {
			a.minutes = append(a.minutes, [2]int{})
		}
		minute := &a.minutes[at/time.Minute]
		minute[0]++
		minute[1] += r.Charge[fakeprovider.TPM]
	}
	return a
}

// report writes the table and the verdict, which it returns as an error if it is bad.
func (d *showcase) report(records []fakeprovider.Record, log string) error {
	c, b, a := d.load.counts(), d.booked, d.audit(records)
	possible := quota.MaxRPM - d.before.RPM
	if a.calls > 0 { // as many as fit the tokens that a call used
		possible = min(possible, (quota.MaxTPM-d.before.TPM)*a.calls/max(a.tokens, 1))
	}
	t := demo.NewTable(d.out)
	fmt.Fprintln(d.out)
	t.Row("admitted", "%d of %d possible in the first %v", a.early, possible, patience)
	t.Row("429s", "%d in the provider's log", a.refused)
	t.Row("503s", "%d by the service, the slowest after %.1fs, Retry-After from %.0fs to %.0fs; none of them reached the provider",
		c.refused, c.slowest.Seconds(), c.retryMin.Seconds(), c.retryMax.Seconds())
	t.Row("answers", "%d whole, %d cut, %d failed; first text after %.1fs (median), the longest wait for room %.1fs",
		c.whole, c.cut, c.failed, median(c.first).Seconds(), b.longest.Seconds())
	t.Row("shutdown", "%d answers were under way when it began", d.underWay)
	for i, m := range a.minutes {
		t.Row(fmt.Sprintf("minute %d", i+1), "%s requests, %s tokens",
			demo.Share(m[0], quota.MaxRPM), demo.Share(m[1], quota.MaxTPM))
	}
	t.Row("", "(requests run out first; tokens are left because answers are shorter than the %d tokens allowed)", maxAnswer)
	t.Row("estimated", "%s tokens before the calls, %s used: what an answer did not use was given back at its end",
		demo.Group(b.estimated), demo.Group(b.tokens))
	t.Row("counts", "the service %s, %s tokens; the provider %s, %s tokens",
		demo.Count(b.calls, "call"), demo.Group(b.tokens), demo.Count(a.calls, "call"), demo.Group(a.tokens))
	t.Row("provider's log", "%s", log)
	var errs []error
	if a.refused > 0 {
		errs = append(errs, fmt.Errorf("the provider refused %s with 429", demo.Count(a.refused, "call")))
	}
	if b.calls != a.calls+a.refused || b.tokens != a.tokens {
		errs = append(errs, errors.New("the service and the provider count differently"))
	}
	if c.cut+c.failed > 0 {
		errs = append(errs, fmt.Errorf("%d answers were cut or failed", c.cut+c.failed))
	}
	wrong := errors.Join(errs...)
	t.Verdict("no 429, both sides count the same, every answer that began arrived whole", wrong)
	t.Flush()
	return wrong
}

func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)/2]
}

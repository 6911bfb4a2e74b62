package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

const (
	// margin is how much longer than a minute a charge counts here. A call may
	// take that much longer to the provider than the one that takes its place a
	// minute later, and still none is refused.
	margin = 250 * time.Millisecond
	// saveEvery is how much usage a crash may lose. Ctrl-C loses none.
	saveEvery = time.Second
)

// session is one run of the program: the task, the endpoint and the quota.
type session struct {
	cfg         config
	in          *batch
	model       string
	account     string // whose quota it is: the model at one endpoint
	total, left int    // prompts

	server  *fakeprovider.Host // nil with -base-url
	client  *client
	done    *doneFile
	limiter *ratelimit.RateLimiter
	page    *page          // nil without -page
	screen  *demo.Progress // nil until something is done
}

// openSession opens all that a run needs, or nothing.
func openSession(cfg config) (*session, error) {
	s := &session{cfg: cfg}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *session) open() (err error) {
	if s.in, err = openBatch(s.cfg.in, s.cfg.model); err != nil {
		return err
	}
	var ids map[string]bool
	if s.model, ids, err = s.in.survey(); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	if err := s.openLimiter(); err != nil {
		return err
	}
	if s.page, err = openPage(s.cfg.page, s.limiter); err != nil {
		return err
	}
	return s.openDone(ids)
}

// connect makes the client, and starts the built-in server unless another
// endpoint is wanted. The key goes to that one only.
func (s *session) connect() (err error) {
	base, key := s.cfg.baseURL, s.cfg.key
	if base == "" {
		log := s.cfg.db + ".server"
		if s.cfg.unsafe {
			log += ".unsafe" // its refusals are not the other's
		}
		if s.server, err = fakeprovider.Listen(newProvider(s.cfg.rpm, s.cfg.tpm).Server, log); err != nil {
			return err
		}
		base, key = s.server.URL+"/v1", ""
	}
	if s.client, err = newClient(base, key, s.cfg.workers); err != nil {
		return err
	}
	// The same model at two endpoints has two quotas.
	s.account = s.client.host() + "/" + s.model
	if s.server != nil {
		s.account = "built-in/" + s.model // its port is another one each time
	}
	return nil
}

// openLimiter opens the database with the usage of earlier runs. From now on it
// saves by itself.
func (s *session) openLimiter() (err error) {
	quota := ratelimit.ModelQuota{MaxRPM: s.cfg.rpm, MaxTPM: s.cfg.tpm}
	s.limiter, err = ratelimit.NewWithSQLiteConfig(s.cfg.db, ratelimit.Config{
		Quotas:      map[string]ratelimit.ModelQuota{s.account: quota},
		Margin:      margin,
		AutoPersist: ratelimit.AutoPersist{Delay: saveEvery / 4, MaxWait: saveEvery},
		OnError:     func(err error) { s.screen.Note("%v", err) },
	})
	return err
}

// openDone finds out which of the prompts are left.
func (s *session) openDone(ids map[string]bool) (err error) {
	if s.done, err = openDone(s.cfg.db+".done", s.in.name+"\t"+s.account); err != nil {
		return err
	}
	s.total = len(ids)
	for id := range ids {
		if !s.done.has(id) {
			s.left++
		}
	}
	return nil
}

// close closes everything that openSession opened.
func (s *session) close() (err error) {
	err = s.page.close()
	if s.client != nil {
		s.client.close()
	}
	if s.server != nil {
		err = errors.Join(err, s.server.Close())
	}
	if s.limiter != nil {
		err = errors.Join(err, s.limiter.Close())
	}
	if s.done != nil {
		err = errors.Join(err, s.done.close())
	}
	return err
}

// introduce announces the run, and what it is to show.
func (s *session) introduce(out io.Writer) {
	where := s.client.host()
	if s.server != nil {
		where = "the built-in server at " + where
	}
	fmt.Fprintf(out, "%s with %s for %s at %s: %s requests, %s tokens a minute\n",
		demo.Count(s.cfg.workers, "agent"), demo.Count(s.left, "prompt"), s.model, where,
		demo.Limit(s.cfg.rpm), demo.Limit(s.cfg.tpm))
	switch {
	case s.cfg.unsafe:
		fmt.Fprintln(out, "unsafe: they check the quota before a call and record the call after it")
		fmt.Fprintln(out, "What to look for: how often the server answers 429.")
	case s.server != nil:
		fmt.Fprint(out, "What to look for: they fill the quota in seconds, wait together for the moment at which there is\n"+
			"room again, and the server never answers 429. It enforces the limits by itself and keeps a log.\n"+
			"Stop it with Ctrl-C and start it again: both sides go on where they were.\n")
	default:
		fmt.Fprintln(out, "What to look for: they use the quota, and no call is answered 429.")
	}
	if answered := s.total - s.left; answered > 0 {
		fmt.Fprintf(out, "%s answered in an earlier run\n", demo.Count(answered, "prompt"))
	}
	fmt.Fprintln(out)
}

// work runs the agents, then settles and reports.
func (s *session) work(ctx context.Context, out io.Writer) error {
	started := time.Now()
	tally := newTally(s.limiter.Stats(s.account))
	s.screen = demo.NewProgress(out, s.cfg.live, func() string {
		c := tally.counts()
		d := s.limiter.Decide(s.account, c.next.estimate+c.next.maxTokens)
		return progressLine(time.Since(started), s.total-s.left, s.total, c, d)
	})
	agents := &agents{
		limiter: s.limiter, account: s.account, client: s.client,
		done: s.done, tally: tally, note: s.screen.Note, unsafe: s.cfg.unsafe,
	}
	stopShowing := s.screen.Start()
	err := agents.run(ctx, s.cfg.workers, s.in.prompts())
	took := time.Since(started)
	stopShowing()

	counts := tally.counts()
	settled := s.settle(ctx, counts)
	log, unread := s.readLog(started)
	report(out, took, counts, s.limiter.Stats(s.account), log)
	return errors.Join(s.verdict(out, counts, log), s.outcome(ctx, err, counts), settled, unread)
}

// settle saves the usage, and forgets state that the next run must not know: the answered
// prompts once all are, and the usage
// of a built-in server whose log ends with this run.
func (s *session) settle(ctx context.Context, c counts) error {
	if s.server != nil && ctx.Err() == nil {
		s.limiter.Reset(s.account)
		s.server.Finish()
	}
	err := s.limiter.Persist()
	if c.answered == s.left {
		err = errors.Join(err, s.done.remove())
	}
	return err
}

// readLog returns what the log of the built-in server says; nil without one.
func (s *session) readLog(began time.Time) (*logged, error) {
	if s.server == nil {
		return nil, nil
	}
	log, err := readLog(s.server, began)
	return &log, err
}

// outcome turns how the run ended into the error that the user sees.
func (s *session) outcome(ctx context.Context, err error, c counts) error {
	left := s.left - c.answered
	switch {
	case left == 0:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w with %s left: start again to go on", errInterrupted, demo.Count(left, "prompt"))
	case err != nil:
		return fmt.Errorf("%s left: %w", demo.Count(left, "prompt"), err)
	}
	return fmt.Errorf("%s failed: start again to retry", demo.Count(left, "prompt"))
}

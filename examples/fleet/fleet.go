package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"github.com/redis/go-redis/v9"
)

const (
	machines  = 3
	victim    = 2 // the machine that is killed
	minLength = 10 * time.Second
	// endWithin bounds the time in which the machines must end; they need milliseconds.
	endWithin = 15 * time.Second
	// logName is the file of the provider's log.
	logName = "provider.jsonl"
)

// fleet is one run of the program, in the process that starts the machines. All of it is used by
// one goroutine.
type fleet struct {
	cfg      config
	out      io.Writer
	provider *fakeprovider.Host
	own      *redisServer // nil with -redis
	url      string       // of Redis
	client   *redis.Client
	prefix   string
	crew     *crew
	plan     plan
	screen   *screen
	tallies  [machines + 1]tally // by the number of the machine

	began    time.Time
	ran      time.Duration // until the end began
	loss     loss
	told     map[string]bool // problems that were shown
	full     bool            // a machine said that the quota is used up
	ending   bool
	failures []error
}

// loss is when Redis was lost, and when all machines were back; zero for never.
type loss struct{ at, empty, back time.Time }

// newFleet starts the provider, and Redis if it was given none. The caller must close the fleet.
func newFleet(ctx context.Context, cfg config, folder string, out io.Writer) (f *fleet, err error) {
	f = &fleet{
		cfg: cfg, out: out, url: cfg.redis, plan: newPlan(cfg.length), told: make(map[string]bool),
		screen: newScreen(out, demo.IsTerminal(out)),
		prefix: "fleet-" + rand.Text(), // two runs on one server must not share a quota
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.url == "" {
		if f.own, err = startRedis(ctx, folder); err != nil {
			return f, err
		}
		f.url = f.own.url()
	}
	options, err := redis.ParseURL(f.url)
	if err != nil {
		return f, fmt.Errorf("-redis: %w", err)
	}
	options.ContextTimeoutEnabled = true
	f.client = redis.NewClient(options)
	if err := f.client.Ping(ctx).Err(); err != nil {
		return f, fmt.Errorf("ask Redis at %s: %w", options.Addr, err)
	}
	if f.provider, err = startProvider(folder, cfg.quota); err != nil {
		return f, err
	}
	f.crew, err = newCrew()
	return f, err
}

// close ends what newFleet has started, and keeps the provider's log. The machines have ended.
func (f *fleet) close() error {
	var errs []error
	if f.provider != nil {
		f.provider.Finish()
		errs = append(errs, f.provider.Close(), os.Rename(f.provider.Journal(), f.logPath()))
	}
	if f.client != nil {
		if f.own == nil {
			errs = append(errs, f.leaveNothing())
		}
		errs = append(errs, f.client.Close())
	}
	f.own.kill()
	return errors.Join(errs...)
}

// logPath is where the provider's log is in the end.
func (f *fleet) logPath() string { return filepath.Join(f.cfg.state, logName) }

// leaveNothing deletes the keys of this run from a server that is not our own.
func (f *fleet) leaveNothing() error {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	keys := f.client.Scan(ctx, 0, "{"+f.prefix+"}:*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := f.client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return fmt.Errorf("delete the keys of this run: %w", err)
		}
	}
	if err := keys.Err(); err != nil {
		return fmt.Errorf("delete the keys of this run: %w", err)
	}
	return nil
}

// run has the machines call until their time is over, ctx ends or one of them fails, and reports.
func (f *fleet) run(ctx context.Context) error {
	f.introduce()
	f.began = time.Now()
	for machine := 1; machine <= machines; machine++ {
		f.start(machine)
	}
	f.watch(ctx)
	records, err := f.provider.Records()
	if err != nil {
		return err
	}
	err = errors.Join(append(f.failures, f.report(newAudit(records)))...)
	if err == nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// watch follows the plan and shows the machines, until all of them have ended.
func (f *fleet) watch(ctx context.Context) {
	steps := f.steps()
	next := time.NewTimer(0)
	defer next.Stop()
	show := time.NewTicker(f.screen.every())
	defer show.Stop()
	interrupted := ctx.Done()
	var tooLate <-chan time.Time
	for len(f.crew.running) > 0 {
		if len(f.failures) > 0 {
			f.end()
		}
		if f.ending && tooLate == nil {
			tooLate = time.After(endWithin)
		}
		select {
		case n := <-f.crew.news:
			f.hear(n)
		case <-next.C:
			for len(steps) > 0 && time.Since(f.began) >= steps[0].at {
				steps[0].do()
				steps = steps[1:]
			}
			if len(steps) > 0 {
				next.Reset(time.Until(f.began.Add(steps[0].at)))
			}
		case <-show.C:
			if !f.ending { // end has shown the last state
				f.screen.show(f.lines())
			}
		case <-interrupted:
			interrupted = nil
			f.end()
		case <-tooLate:
			f.endHard()
		}
	}
}

// hear notes what a machine tells.
func (f *fleet) hear(n news) {
	t := &f.tallies[n.from.machine]
	if n.ended {
		f.exited(n)
		return
	}
	switch n.event.Kind {
	case eventProblem:
		f.tellProblem(n)
	case eventState:
		f.noteRedis(n, t.away, n.event.Text != "")
		f.full = f.full || n.event.RPM >= f.cfg.quota.RPM
		t.state(n.event)
	default:
		t.call(n.event)
	}
}

// noteRedis tells when a machine loses Redis, and when all have it back.
func (f *fleet) noteRedis(n news, was, is bool) {
	switch {
	case !was && is && !f.ending:
		f.tell("machine %d has lost Redis, and goes on inside its share of what is left", n.from.machine)
	case was && !is:
		f.tallies[n.from.machine].away = false
		for _, t := range f.tallies {
			if t.away {
				return
			}
		}
		if f.loss.back.IsZero() && !f.loss.empty.IsZero() {
			f.loss.back = time.Now()
		}
		f.tell("all machines have Redis again, and have written back what they know")
	}
}

// tellProblem shows each problem once, unless it comes of what this program does to Redis.
func (f *fleet) tellProblem(n news) {
	const most = 20 // problems that differ
	expected := !f.loss.at.IsZero() && f.loss.back.IsZero()
	if expected || f.ending || f.told[n.event.Text] || len(f.told) == most {
		return
	}
	f.told[n.event.Text] = true
	f.tell("machine %d: %s", n.from.machine, n.event.Text)
}

// exited notes that a machine has ended.
func (f *fleet) exited(n news) {
	p := n.from
	if f.crew.running[p.machine] == p {
		delete(f.crew.running, p.machine)
		f.tallies[p.machine].stopped(p.killed)
	}
	switch {
	case p.killed:
	case n.err != nil:
		f.failures = append(f.failures, fmt.Errorf("machine %d: %w", p.machine, n.err))
	case !f.ending:
		f.failures = append(f.failures, fmt.Errorf("machine %d ended too early", p.machine))
	}
}

func (f *fleet) start(machine int) {
	j := job{Redis: f.url, Prefix: f.prefix, Provider: f.provider.URL, Quota: f.cfg.quota}
	f.tallies[machine].runs = true
	f.check(f.crew.start(machine, j))
}

// check notes an error that ends the run.
func (f *fleet) check(err error) {
	if err != nil {
		f.failures = append(f.failures, err)
	}
}

// end has the machines end. They write to Redis what they still have to, so it must run.
func (f *fleet) end() {
	if f.ending {
		return
	}
	f.screen.show(f.lines())
	f.ending, f.ran = true, min(time.Since(f.began), f.cfg.length)
	if f.own != nil && !f.own.runs() {
		f.check(f.own.start(context.Background()))
	}
	f.crew.dismiss()
}

// endHard ends those machines that do not end.
func (f *fleet) endHard() {
	for machine := range f.crew.running {
		f.check(fmt.Errorf("machine %d did not end within %v", machine, endWithin))
		f.check(f.crew.kill(machine))
	}
}

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/demo"
)

func introduce(out io.Writer, cfg config) {
	fmt.Fprintf(out, `%d people and a batch of %d workers share %s (%d requests a minute) for %v. A person
who gets no room there within %v gets %s. The same runs twice: with classes, and without.
What to look for: with classes the people get the better model at once, the batch gets all the
rest of the quota, and there is no 429.

`, cfg.people, workers, primary, quotas[primary].MaxRPM, cfg.length, patience, fallback)
}

// line is how it goes.
func (s *service) line() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d of %s by %s, batch %d", s.people[primary],
		demo.Count(s.people[primary]+s.people[fallback], "person"), primary, s.batch)
}

// result is what a service did.
type result struct {
	people   int // answered by the primary model
	share    int // of the people whom the service answered, in per cent
	p95      time.Duration
	batch    int // calls that the server counted
	used     int // of the quota of the primary model,
	quota    int // as the server counted
	refused  int
	fallback int
}

// result adds up what the service and its server counted.
func (s *service) result(cfg config) result {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := result{people: s.people[primary], quota: int(time.Duration(quotas[primary].MaxRPM) * cfg.length / time.Minute)}
	for _, a := range s.server.Arrivals(primary) {
		if !a.Refused && a.Time.Before(s.until) {
			r.used++
		}
	}
	r.batch = r.used - r.people
	r.fallback = s.people[fallback]
	r.refused = s.server.Stats(primary).Refused + s.server.Stats(fallback).Refused
	r.share = 100 * r.people / cfg.people
	slices.Sort(s.waits)
	if n := len(s.waits); n > 0 {
		r.p95 = s.waits[(n*95+99)/100-1]
	}
	return r
}

// report writes the table and the verdict, which it returns as an error if it is bad.
func report(out io.Writer, cfg config, with, without *service) error {
	table := demo.NewTable(out)
	fmt.Fprintln(out)
	var errs []error
	for name, s := range map[string]*service{"with classes": with, "without": without} {
		if s.failed > 0 {
			errs = append(errs, fmt.Errorf("%s: %s failed: %w", name, demo.Count(s.failed, "call"), s.err))
		}
	}
	good, bad := with.result(cfg), without.result(cfg)
	for _, row := range []struct {
		name string
		r    result
	}{{"with classes", good}, {"without", bad}} {
		table.Row(row.name, "people: %s by %s, %d by %s; 95%% had room within %v",
			demo.Share(row.r.people, cfg.people), primary, row.r.fallback, fallback, row.r.p95.Round(10*time.Millisecond))
		table.Row("", "batch: %s; the quota of %s: %s; 429s: %d",
			demo.Count(row.r.batch, "call"), primary, demo.Share(row.r.used, row.r.quota), row.r.refused)
		if row.r.refused > 0 {
			errs = append(errs, fmt.Errorf("%s: the server refused %s", row.name, demo.Count(row.r.refused, "call")))
		}
	}
	if good.share < 95 {
		errs = append(errs, fmt.Errorf("%d%% of the people got %s, want 95%%", good.share, primary))
	}
	if good.p95 > 2*time.Second {
		errs = append(errs, fmt.Errorf("95%% of the people had room within %v, want 2s", good.p95))
	}
	if 100*good.used < 98*good.quota {
		errs = append(errs, fmt.Errorf("%d of %d requests were used, want 98%%", good.used, good.quota))
	}
	wrong := errors.Join(errs...)
	table.Verdict("with classes 95% of the people got the better model within 2 s, 98% of the quota was used, no 429", wrong)
	table.Flush()
	return wrong
}

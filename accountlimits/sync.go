package accountlimits

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// Sync reads the limits of the sources at once and then again and again, gives them to rl, and
// returns when ctx has ended. Config.OnError of rl gets each failure. It is [Syncer.Run] with only
// these fields.
func Sync(ctx context.Context, rl *ratelimit.RateLimiter, every time.Duration, sources ...Source) error {
	return Syncer{Limiter: rl, Every: every, Sources: sources}.Run(ctx)
}

// Syncer keeps a limiter by the limits of accounts. Limiter and Sources must be set. Its fields
// must not be changed while it runs.
type Syncer struct {
	// Limiter gets the limits, by SetAccountQuotas.
	Limiter *ratelimit.RateLimiter
	// Every is the time from one successful read of a source to the next, which comes up to a tenth
	// earlier, so that many processes do not read at once. Zero or less means an hour; less than
	// a second means a second.
	Every time.Duration
	// Sources are read independently of each other. Of a model that several of them have, the
	// lower limits count.
	Sources []Source
	// OnError gets the error of each read that fails, on the goroutine of Run, which waits for it.
	// Nil means Config.OnError of the limiter.
	OnError func(error)
}

const (
	defaultEvery = time.Hour
	minEvery     = time.Second
	fetchTimeout = 2 * time.Minute // for all pages of a source
)

// Run reads the limits of all sources at once and then again and again, and gives the limiter what
// is known of all of them after each read that succeeds. It returns when ctx has ended and no read
// is under way any more: an error that wraps that of ctx and the last one of each source whose
// last read failed. The limiter keeps the limits. Without a limiter or a source, or with one that
// is nil, Run returns an error at once.
//
// A read that fails, also the first, changes no limit: until each source was read once, the models
// that none of them names keep the limits that the limiter has of an earlier run. OnError is told,
// and the source read again after 1 s, 2 s, 4 s and so on, at most 5 minutes and at most Every;
// after as long as the provider asks for with Retry-After, at most a day, where that is longer. A
// read ends after two minutes.
//
// Run may be called more than once; each call reads on its own.
func (s Syncer) Run(ctx context.Context) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("sync account limits: %w", err)
	}
	onError := s.OnError
	if onError == nil {
		onError = s.Limiter.ReportError
	}
	var before map[string]ratelimit.ModelQuota // the limits of the last run
	set := func(limits map[string]ratelimit.ModelQuota, whole bool) {
		if before == nil {
			before = s.Limiter.AccountQuotas()
		}
		if !whole {
			limits = beside(limits, before)
		}
		s.Limiter.SetAccountQuotas(limits)
	}
	return s.run(ctx, set, onError)
}

// run is Run of a Syncer that is valid. set gets the limits, and whether they are of all sources,
// and onError gets the failures.
func (s Syncer) run(
	ctx context.Context, set func(limits map[string]ratelimit.ModelQuota, whole bool), onError func(error),
) error {
	every := s.Every
	if every <= 0 {
		every = defaultEvery
	}
	every = max(every, minEvery)

	reads := make(chan read)
	var readers sync.WaitGroup
	for i, source := range s.Sources {
		readers.Go(func() { keepReading(ctx, i, source, schedule{every: every}, reads) })
	}
	go func() {
		readers.Wait()
		close(reads)
	}()
	known := make([]map[string]ratelimit.ModelQuota, len(s.Sources))
	failed := make([]error, len(s.Sources))
	unread := make(map[int]bool)
	for i := range s.Sources {
		unread[i] = true
	}
	for r := range reads {
		if failed[r.source] = r.err; r.err == nil {
			known[r.source] = r.limits
			delete(unread, r.source)
			set(together(known), len(unread) == 0)
		} else {
			onError(fmt.Errorf("sync account limits: %w", r.err))
		}
	}
	return fmt.Errorf("sync account limits: %w", errors.Join(append([]error{ctx.Err()}, failed...)...))
}

func (s Syncer) validate() error {
	if s.Limiter == nil {
		return errors.New("the field Limiter is nil")
	}
	if len(s.Sources) == 0 {
		return errors.New("there are no sources")
	}
	for i, source := range s.Sources {
		if source == nil {
			return fmt.Errorf("source %d is nil", i)
		}
	}
	return nil
}

// read is the result of a read of a source.
type read struct {
	source int
	limits map[string]ratelimit.ModelQuota
	err    error
}

// keepReading reads a source until ctx ends.
func keepReading(ctx context.Context, index int, source Source, next schedule, to chan<- read) {
	for {
		limits, err := readOnce(ctx, source)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			err = fmt.Errorf("source %d (%T): %w", index, source, err)
		}
		select {
		case to <- read{source: index, limits: limits, err: err}:
		case <-ctx.Done():
			return
		}
		pause := time.NewTimer(next.pause(err))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

func readOnce(ctx context.Context, source Source) (map[string]ratelimit.ModelQuota, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	limits, err := source.Limits(ctx)
	return maps.Clone(limits), err // the source may go on with its own map
}

// together returns the limits of all sources.
func together(known []map[string]ratelimit.ModelQuota) map[string]ratelimit.ModelQuota {
	all := make(map[string]ratelimit.ModelQuota)
	for _, limits := range known {
		for model, quota := range limits {
			all[model] = lower(all[model], quota)
		}
	}
	return all
}

// beside returns limits with those of others for the models that they do not name.
func beside(limits, others map[string]ratelimit.ModelQuota) map[string]ratelimit.ModelQuota {
	all := maps.Clone(others)
	maps.Copy(all, limits)
	return all
}

package redisstore

import (
	"context"
	"fmt"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// everything reads the whole log, and follows it from then on. last is the place of its last event.
func (l *Log) everything(ctx context.Context) (news sharedlog.News, last int64, err error) {
	c, err := l.readAll(ctx)
	if err != nil {
		return news, 0, err
	}
	l.follows.Store(true)
	l.replaced.Store(false)
	l.lacks.Store(false)
	l.store.followed.Store(true)
	l.heard.reset(c.identity, c.last, c.stamp)
	l.knownAt.Store(l.since(c.asOf))
	l.lives.learn(c.leases, c.leasesAt)
	l.begin.Do(func() {
		followed.begin(l.store.lineage)
		l.goroutines.Go(l.follow)
		l.goroutines.Go(l.keep)
	})
	news.Image = c.image()
	news.Span, news.Folded = l.span.Load(), c.folded
	return news, c.last, nil
}

// image returns the content as a step tells it.
func (c *content) image() *sharedlog.Image {
	img := &sharedlog.Image{
		Identity: c.identity, Events: c.events, Quotas: make(map[string]state.Quota), Said: make(map[string]state.Said),
		Cooldowns: c.cooldowns, Days: c.days, Answers: c.answers, Found: c.found, Classes: c.classes, UsedWall: c.used,
		Pools: c.members(), Spend: c.spends(),
	}
	for model, said := range c.said {
		if !said.IsEmpty() {
			img.Said[model], img.Quotas[model] = said, provenance.Of(said)
		}
	}
	own := c.log.options.Process
	known := map[int64]bool{0: true, own: true}
	add := func(process int64) {
		if !known[process] {
			known[process] = true
			img.Processes = append(img.Processes, process)
		}
	}
	for process := range c.leases {
		add(process)
	}
	for _, e := range c.events {
		add(e.Process)
	}
	slices.Sort(img.Processes)
	return img
}

// page returns entries from a place on, as many as count says at most.
func (l *Log) page(ctx context.Context, from, count int64) ([]entry, error) {
	entries, err := ask(ctx, l.store, func(ctx context.Context) ([]entry, error) {
		messages, err := l.store.client.XRangeN(ctx, l.keys[keyLog], itoa(from), "+", count).Result()
		if err != nil {
			return nil, err
		}
		return entriesOf(messages)
	})
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return entries, nil
}

// scan calls f for each field of a hash, at least once.
func (l *Log) scan(ctx context.Context, key int, f func(key, value string)) error {
	type page struct {
		fields []string
		cursor uint64
	}
	for cursor := uint64(0); ; {
		p, err := ask(ctx, l.store, func(ctx context.Context) (p page, err error) {
			p.fields, p.cursor, err = l.store.client.HScan(ctx, l.keys[key], cursor, "", readPage).Result()
			return p, err
		})
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		for i := 0; i+1 < len(p.fields); i += 2 {
			f(p.fields[i], p.fields[i+1])
		}
		if cursor = p.cursor; cursor == 0 {
			return nil
		}
	}
}

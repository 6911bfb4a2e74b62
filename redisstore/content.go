package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// content is what the store has, as it is read, page by page, while others write on. The events
// bring each hash up to date, whether it has them or not.
type content struct {
	log       *Log
	identity  string
	begun     int64
	folded    int64 // see sharedlog.News
	last      int64
	stamp     int64
	used      int64
	entries   []entry
	events    []*sharedlog.Event
	days      map[string]state.DayUsage
	said      map[string]state.Said
	cooldowns map[string]state.Cooldown
	answers   map[string]state.Answers
	found     map[string]state.Found
	pools     map[string]poolText
	spend     map[string]spent
	classes   map[string]string
	leases    map[int64]float64 // the ends of the leases, in milliseconds of the log's time,
	leasesAt  time.Time         // as they were at this time
	asOf      time.Time         // what was written before is here
}

// read joins the log, and reads all that there is. The error wraps sharedlog.ErrIncomplete or
// errReplaced if it has changed too much meanwhile.
func (c *content) read(ctx context.Context) error {
	if err := c.join(ctx); err != nil {
		return err
	}
	if err := c.readHashes(ctx); err != nil {
		return err
	}
	if err := c.readLeases(ctx); err != nil {
		return err
	}
	if err := c.readEvents(ctx); err != nil {
		return err
	}
	for range 5 {
		scanned := c.last
		if err := c.readCooldowns(ctx); err != nil {
			return err
		}
		if err := c.readRest(ctx); err != nil {
			return err
		}
		if !c.coolsBehind(scanned) {
			break
		}
	}
	c.fold()
	return nil
}

// join makes the log if it is not there, and this process one of those that share it.
func (c *content) join(ctx context.Context) error {
	l := c.log
	args := l.args(position{}, true, 4)
	fresh, used := "1", "2"
	switch {
	case l.follows.Load():
		fresh, used = "0", "0"
	case l.options.FreshStart:
		used = "0"
	case l.store.followed.Load() || followed.isOver(l.store.lineage):
		used = "1" // others follow or have followed a log that is lost
	}
	r, err := l.run(ctx, joinScript, append(args, strconv.FormatUint(rand.Uint64(), 36), l.options.Span, used, fresh))
	if err != nil {
		return err
	}
	words := r.words()
	if len(words) != 2 {
		return fmt.Errorf("redis: join: %w: %q", errReply, r.text)
	}
	span, spanErr := parseInt(words[0])
	used64, usedErr := parseInt(words[1])
	if spanErr != nil || usedErr != nil || span < 0 {
		return fmt.Errorf("redis: join: %w: %q", errReply, r.text)
	}
	l.span.Store(max(span, l.options.Span))
	c.identity, c.begun, c.folded, c.used = r.log, r.place, r.folded, nanos(used64)
	return nil
}

// readHashes reads the hashes, but for the cooldowns.
func (c *content) readHashes(ctx context.Context) error {
	c.days, c.said = make(map[string]state.DayUsage), make(map[string]state.Said)
	c.answers, c.found = make(map[string]state.Answers), make(map[string]state.Found)
	c.pools = make(map[string]poolText)
	c.spend, c.classes = make(map[string]spent), make(map[string]string)
	var bad error
	err := c.log.scan(ctx, keyDays, func(key, value string) {
		if model, ok := modelOf(key); ok {
			day, err := parseDay(value)
			if err != nil {
				bad = fmt.Errorf("redis: day of %q: %w", model, err)
			}
			c.days[model] = day
		}
	})
	if err == nil {
		err = c.log.scan(ctx, keyQuotas, c.addQuota)
	}
	if err == nil {
		err = scanTexts(ctx, c.log, keyAnswers, c.answers, state.ParseAnswers)
	}
	if err == nil {
		err = scanTexts(ctx, c.log, keyFound, c.found, state.ParseFound)
	}
	if err == nil {
		err = scanTexts(ctx, c.log, keyPools, c.pools, parsePool)
	}
	if err == nil {
		err = c.readSpend(ctx)
	}
	if err == nil {
		err = bad
	}
	return err
}

// scanTexts reads a hash of models and texts. Who cannot read a text learns or searches anew.
func scanTexts[T any](ctx context.Context, l *Log, key int, into map[string]T, parse func(text string) (T, error)) error {
	return l.scan(ctx, key, func(key, value string) {
		if model, ok := modelOf(key); ok {
			if is, err := parse(value); err == nil {
				into[model] = is
			}
		}
	})
}

// poolText is the members of a pool, or that it is none any more.
type poolText struct {
	models []string
	gone   bool
}

func parsePool(text string) (p poolText, err error) {
	p.models, p.gone, err = state.ParsePool(text)
	return p, err
}

// members returns the members of the pools that there are.
func (c *content) members() map[string][]string {
	members := make(map[string][]string, len(c.pools))
	for pool, p := range c.pools {
		if !p.gone {
			members[pool] = p.models
		}
	}
	return members
}

// addQuota adds what a field of the quotas says. What is no quota is passed over, as in an event.
func (c *content) addQuota(key, value string) {
	if model, is := strings.CutPrefix(key, classesLetter); is {
		c.classes[model] = value
		return
	}
	for origin, letter := range quotaOrigins {
		if len(key) > 0 && key[:1] == letter {
			if q, err := sharedlog.ParseQuota(value); err == nil {
				said := c.said[key[1:]]
				said.Set(origin, q)
				c.said[key[1:]] = said
			}
		}
	}
}

func (c *content) readCooldowns(ctx context.Context) error {
	c.cooldowns = make(map[string]state.Cooldown)
	return c.log.scan(ctx, keyCooldowns, func(key, value string) {
		model, ok := modelOf(key)
		if until, cause, err := parseOrdered(value); ok && err == nil {
			c.cooldowns[model] = state.Cooldown{Until: time.Unix(0, until), Cause: cause}
		}
	})
}

// readLeases reads the leases of all processes.
func (c *content) readLeases(ctx context.Context) error {
	c.leases, c.leasesAt = make(map[int64]float64), time.Now()
	for from := int64(0); ; from += readPage {
		page, err := ask(ctx, c.log.store, func(ctx context.Context) ([]redis.Z, error) {
			return c.log.store.client.ZRangeWithScores(ctx, c.log.keys[keyProcs], from, from+readPage-1).Result()
		})
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		for _, z := range page {
			text, _ := z.Member.(string)
			if process, err := parseInt(text); err == nil {
				c.leases[process] = z.Score
			}
		}
		if len(page) < readPage {
			return nil
		}
	}
}

// readEvents reads the stream up to its end. Pages of small entries have more of them, so that no
// page keeps the server busy for long.
func (c *content) readEvents(ctx context.Context) error {
	const most, light = 8 * readPage, 64 << 10 // entries, and bytes of a page
	c.entries, c.last, c.stamp = nil, c.begun, 0
	for count := int64(readPage); ; {
		next := int64(0)
		if n := len(c.entries); n > 0 {
			next = c.last + 1
		}
		page, err := c.log.page(ctx, next, count)
		if err != nil {
			return err
		}
		bytes := 0
		for _, n := range page {
			c.last, c.stamp = n.last(), n.stamp
			bytes += len(n.value)
		}
		c.entries = append(c.entries, page...)
		if int64(len(page)) < count {
			return nil
		}
		if count = min(2*count, most); bytes > light {
			count = readPage
		}
	}
}

// readRest reads what was written since, and makes sure that the log is still the same one.
func (c *content) readRest(ctx context.Context) error {
	at := position{log: c.identity, seq: c.last, stamp: c.stamp}
	r, err := c.log.run(ctx, lookScript, c.log.args(at, false, 0))
	if err != nil {
		return err
	}
	rest, err := c.log.upTo(ctx, c.last, r.place, r)
	if err != nil {
		return err
	}
	if n := len(rest); n > 0 {
		c.entries = append(c.entries, rest...)
		c.last, c.stamp = rest[n-1].last(), rest[n-1].stamp
	}
	if r.folded != c.folded {
		return errFolded
	}
	c.asOf = r.sent
	return c.decode(ctx)
}

// errFolded says that events were deleted while they were read. What one of them began may seem to
// go on where the other, that ended it, is gone.
var errFolded = fmt.Errorf("redis: %w: they were deleted while they were read", sharedlog.ErrIncomplete)

// decode makes events of the entries, but for those that were dropped out of entries.
func (c *content) decode(ctx context.Context) error {
	all, err := eventsOf(c.entries, 0)
	if err != nil {
		return err
	}
	holes := make(map[int64]string)
	err = c.log.scan(ctx, keyHoles, func(field, value string) {
		if seq, err := parseInt(field); err == nil {
			holes[seq] = value
		}
	})
	if err != nil {
		return err
	}
	c.events = all[:0]
	for _, n := range c.entries {
		hole := holes[n.seq]
		for i := range n.n {
			if i >= int64(len(hole)) || hole[i] != '1' {
				c.events = append(c.events, all[i])
			}
		}
		all = all[n.n:]
	}
	return nil
}

// coolsBehind reports whether events behind a place change cooldowns. Which ones a Reset ends, only
// its process knew.
func (c *content) coolsBehind(place int64) bool {
	return slices.ContainsFunc(c.events, func(e *sharedlog.Event) bool {
		return e.Seq > place && (e.Kind == sharedlog.Reset || e.Kind == sharedlog.Cooldown)
	})
}

// fold brings what the hashes say up to the last event. It need not know how far they are: an event
// that they have changes nothing, as long as those behind it follow.
func (c *content) fold() {
	for _, e := range c.events {
		if e.Seq <= c.folded {
			continue // it is there only because it is still in force
		}
		switch {
		case e.Kind == sharedlog.Reset && e.Model == "":
			clear(c.days)
		case e.Kind == sharedlog.Reset:
			delete(c.days, e.Model)
		case e.HasDay:
			c.days[e.Model] = e.Day
		}
		switch e.Kind {
		case sharedlog.Quota:
			if saying, err := sharedlog.ParseSaying(e.Text); err == nil {
				c.said[e.Model] = saying.After(c.said[e.Model])
			}
		case sharedlog.Answers:
			if a, err := state.ParseAnswers(e.Text); err == nil {
				c.answers[e.Model] = a
			}
		case sharedlog.Found:
			if f, err := state.ParseFound(e.Text); err == nil {
				c.found[e.Model] = f
			}
		case sharedlog.Pool:
			if p, err := parsePool(e.Text); err == nil {
				c.pools[e.Model] = p
			}
		case sharedlog.Classes:
			if c.classes[e.Model] = e.Text; e.Text == "" {
				delete(c.classes, e.Model)
			}
		case sharedlog.Spend:
			c.foldSpend(e)
		}
	}
}

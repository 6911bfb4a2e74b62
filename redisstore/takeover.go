package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/former"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// formerLayout is the layout before, which this version takes over.
const formerLayout = "2"

// formerNames are its keys, in the order in which the scripts know them.
var formerNames = []string{"log", "meta", "days", "quotas", "cooldowns", "answers", "procs", "holes", "found", "spend", "pools"}

var enterScript = newScript("guard", "enter")

// formerKey returns a key of the layout before.
func (l *Log) formerKey(name string) string { return l.former[slices.Index(formerNames, name)] }

// errFormerLives says that the log of before is in use.
var errFormerLives = errors.New("a process of an earlier version shares the quota: " +
	"open it when all of them have ended, and their leases are over")

// enter keeps programs of the layout before out. Where these have a log, it begins this one with
// what that has. It waits for the leases of the processes that use that: what they charge beside
// this log would be lost.
func (l *Log) enter(ctx context.Context) error {
	const pause = 100 * time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		reply, err := patiently(ctx, l, func(ctx context.Context) (any, error) {
			return eval(ctx, l.store.client.Process, enterScript, l.former, []any{l.keepFor()})
		})
		if err != nil {
			return err
		}
		if former, ok := reply.([]any); ok && len(former) == 5 {
			err = l.takeOver(ctx, former)
		} else {
			err = statusOf(reply)
		}
		if !errors.Is(err, errFormerLives) && !errors.Is(err, store.ErrLost) || waited >= l.store.options.OpenTimeout {
			return err
		}
		if err := l.sleep(ctx, pause); err != nil {
			return fmt.Errorf("%w: %w", errFormerLives, err)
		}
	}
}

// takeOver begins the log with what a log of the layout before has, of which enter.lua tells so
// much. The error is store.ErrLost if somebody else was first.
func (l *Log) takeOver(ctx context.Context, told []any) error {
	t := newTaking(l, told)
	bytes, err := t.image(ctx)
	if err != nil {
		return fmt.Errorf("take over the log of an earlier version: %w", err)
	}
	image := store.Image{At: store.Position{Log: rand.Uint64() | 1, Sum: rand.Uint64()}, Bytes: bytes}
	if err := l.show(ctx, image, l.former, "0", t.head); err != nil {
		return err
	}
	l.learned = t.answers
	return nil
}

// Learned returns what the processes of an earlier version had learned of the answers of models, in
// the Log that has taken over theirs. It is in no log.
func (l *Log) Learned() map[string]state.Answers { return l.learned }

// taking is the content of a log of the layout before. Nobody writes there: whoever begins a log
// with it finds the head as it was.
type taking struct {
	*former.Content
	log     *Log
	head    string
	shift   int64 // of the log's time against the server's, in nanoseconds
	answers map[string]state.Answers
}

func newTaking(l *Log, told []any) *taking {
	number := func(text any) int64 {
		n, _ := strconv.ParseInt(fmt.Sprint(text), 10, 64) // one that is none is as good as none
		return n
	}
	wall := nanos(number(told[0]))
	t := &taking{Content: former.New(account.Now{Instant: wall, Wall: wall}), log: l, answers: make(map[string]state.Answers)}
	t.head, _ = told[2].(string)
	if fields := strings.Fields(t.head); len(fields) == 6 {
		t.shift, t.Folded = nanos(number(fields[1])), number(fields[2])
	}
	t.Span = number(told[3])
	if used := number(told[4]); used != 0 {
		t.UsedAt = nanos(used) - t.shift
	}
	if told[1] != int64(1) { // the server has evicted some of the keys, and what these had counts as used
		t.UsedAt = wall
		l.warning = l.failed("open log",
			errors.New("keys of the log of an earlier version are missing, so that the last minute counts as used"))
	}
	return t
}

// image reads all keys, and makes an image of them.
func (t *taking) image(ctx context.Context) ([]byte, error) {
	for _, hash := range []struct {
		key, what string
		add       func(field, value string) error
	}{
		{"days", "day", adding(t.Days, parseDay)}, {"cooldowns", "cooldown", adding(t.Cooldowns, parseCooldown)},
		{"found", "found limit", adding(t.Found, state.ParseFound)}, {"spend", "spend", adding(t.Spend, parseSpent)},
		{"pools", "pool", t.addPool}, {"answers", "answers", t.addAnswers},
	} {
		fields, err := t.hash(ctx, hash.key)
		if err != nil {
			return nil, err
		}
		for name, value := range fields {
			if err := hash.add(name, value); err != nil {
				return nil, fmt.Errorf("%s of %q: %w", hash.what, name, err)
			}
		}
	}
	quotas, err := t.hash(ctx, "quotas")
	if err != nil {
		return nil, err
	}
	for field, value := range quotas {
		if err := t.addQuota(field, value); err != nil {
			return nil, err
		}
	}
	if err := t.readEvents(ctx); err != nil {
		return nil, err
	}
	for name, said := range t.Said {
		if !said.IsEmpty() {
			t.Quotas[name] = catalog.QuotaOf(said)
		}
	}
	return t.Image(rand.Uint64())
}

// adding returns a function that adds to a map what a text says of a name.
func adding[V any](all map[string]V, parse func(text string) (V, error)) func(name, text string) error {
	return func(name, text string) (err error) {
		all[name], err = parse(text)
		return err
	}
}

func (t *taking) addPool(name, text string) error {
	models, gone, err := state.ParsePool(text)
	if err == nil && !gone {
		t.Pools[name] = models
	}
	return err
}

func (t *taking) addAnswers(name, text string) error {
	if is, err := state.ParseAnswers(text); err == nil { // others are learned anew
		t.answers[name] = is
	}
	return nil
}

// addQuota adds what a field of the quotas says: its first letter tells who says it, or that it is
// the classes.
func (t *taking) addQuota(field, text string) error {
	if field == "c" {
		t.Classes = text
		return nil
	}
	origin := state.Program
	name, ok := strings.CutPrefix(field, "p")
	if !ok {
		origin = state.Account
		name, ok = strings.CutPrefix(field, "a")
	}
	if !ok {
		return nil
	}
	var q state.Quota
	err := state.DecodeStrictly(text, &q)
	if err == nil {
		err = q.Validate(name)
	}
	if err != nil {
		return fmt.Errorf("quota of %q: %w", name, err)
	}
	said := t.Said[name]
	said.Set(origin, q)
	t.Said[name] = said
	return nil
}

// formerPage is how many entries or fields are read at once.
const formerPage = 1000

// hash returns the fields of a hash that formerName does not pass over.
func (t *taking) hash(ctx context.Context, key string) (map[string]string, error) {
	all := make(map[string]string)
	for cursor := uint64(0); ; {
		page, err := ask(ctx, t.log, func(ctx context.Context) (*redis.ScanCmd, error) {
			page := t.log.store.client.HScan(ctx, t.log.formerKey(key), cursor, "", formerPage)
			return page, page.Err()
		})
		if err != nil {
			return nil, err
		}
		fields, next := page.Val()
		for i := 0; i+1 < len(fields); i += 2 {
			if name, ok := formerName(fields[i]); ok {
				all[name] = fields[i+1]
			}
		}
		if cursor = next; cursor == 0 {
			return all, nil
		}
	}
}

// readEvents reads the stream. What was spent is in its hash with each event.
func (t *taking) readEvents(ctx context.Context) error {
	dropped, err := t.hash(ctx, "holes")
	if err != nil {
		return err
	}
	add := func(e *former.Event) error {
		e.Wall -= t.shift
		if e.Kind == former.Spend {
			return e.Check()
		}
		if err := t.Add(e); err != nil {
			return err
		}
		return t.Tell(e)
	}
	for from := "-"; ; {
		page, err := ask(ctx, t.log, func(ctx context.Context) ([]redis.XMessage, error) {
			return t.log.store.client.XRangeN(ctx, t.log.formerKey("log"), from, "+", formerPage).Result()
		})
		if err != nil {
			return err
		}
		for _, m := range page {
			seq, _, _ := strings.Cut(m.ID, "-")
			value, _ := m.Values["e"].(string)
			if err := formerEvents(m.ID, value, dropped[seq], add); err != nil {
				return err
			}
			from = "(" + m.ID
		}
		if len(page) < formerPage {
			return nil
		}
	}
}

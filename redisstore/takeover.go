package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// The keys of the layout before, in the order of formerNames.
const (
	formerLog = iota
	formerMeta
	formerDays
	formerQuotas
	formerCooldowns
	formerAnswers
	formerProcs
	formerHoles
	formerFound
	formerSpend
	formerPools
	formerLeast = formerFound // how many keys the first versions of the layout had
)

// errFormerLives says that the log of before is in use.
var errFormerLives = errors.New("a process of an earlier version shares the quota: " +
	"open it when all of them have ended, and their leases are over")

// takeOver begins the log with what a log of the layout before has. It waits for the leases of the
// processes that use that: what they charge beside this log would be lost.
func (l *Log) takeOver(ctx context.Context) error {
	const pause = 100 * time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		err := l.tryTakeOver(ctx)
		if !errors.Is(err, errFormerLives) && !errors.Is(err, store.ErrLost) || waited >= l.store.options.OpenTimeout {
			return err
		}
		if err := l.sleep(ctx, pause); err != nil {
			return fmt.Errorf("%w: %w", errFormerLives, err)
		}
	}
}

func (l *Log) tryTakeOver(ctx context.Context) error {
	t := taking{log: l}
	if err := t.begin(ctx); err != nil {
		return err
	}
	if t.head == "" {
		return nil // somebody else has taken it over
	}
	if err := t.read(ctx); err != nil {
		return fmt.Errorf("take over the log of an earlier version: %w", err)
	}
	bytes, err := t.Image(rand.Uint64())
	if err != nil {
		return fmt.Errorf("take over the log of an earlier version: %w", err)
	}
	image := store.Image{At: store.Position{Log: rand.Uint64() | 1, Sum: rand.Uint64()}, Bytes: bytes}
	if err := l.begin(ctx, 0, image, t.head); err != nil {
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

// begin reads the head, and makes sure that nobody uses the log.
func (t *taking) begin(ctx context.Context) error {
	l := t.log
	now, err := ask(ctx, l, func(ctx context.Context) (time.Time, error) { return l.store.client.Time(ctx).Result() })
	if err != nil {
		return err
	}
	meta, err := ask(ctx, l, func(ctx context.Context) ([]any, error) {
		return l.store.client.HMGet(ctx, t.key(formerMeta), "head", "span", "used").Result()
	})
	if err != nil {
		return err
	}
	var text [3]string
	for i := range text {
		text[i], _ = meta[i].(string)
	}
	fields := strings.Fields(text[0])
	if t.head = text[0]; strings.HasPrefix(t.head, "later.") {
		t.head = ""
		return nil
	}
	wall := now.UnixNano()
	t.Content = former.New(account.Now{Instant: wall, Wall: wall})
	number := func(text string) (n int64) {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0
		}
		return n
	}
	if len(fields) == 6 {
		t.shift, t.Folded = nanos(number(fields[1])), number(fields[2])
	}
	t.Span = number(text[1])
	if used := number(text[2]); used != 0 {
		t.UsedAt = nanos(used) - t.shift
	}
	living, err := ask(ctx, l, func(ctx context.Context) (int64, error) {
		from := strconv.FormatInt((wall+t.shift)/int64(time.Millisecond), 10)
		return l.store.client.ZCount(ctx, t.key(formerProcs), from, "+inf").Result()
	})
	if err == nil && living > 0 {
		err = errFormerLives
	}
	return err
}

func (t *taking) key(key int) string { return t.log.keys[ownKeys+key] }

// read reads all keys. Where the server has evicted some of them, what these had counts as used.
func (t *taking) read(ctx context.Context) error {
	whole, err := t.isWhole(ctx)
	if err != nil {
		return err
	}
	if !whole {
		t.UsedAt = t.Now.Wall
		t.report(errors.New("keys of the log of an earlier version are missing, so that the last minute counts as used"))
	}
	for _, hash := range []struct {
		key  int
		what string
		add  func(field, value string) error
	}{
		{formerDays, "day", t.addDay}, {formerCooldowns, "cooldown", t.addCooldown}, {formerFound, "found limit", t.addFound},
		{formerPools, "pool", t.addPool}, {formerAnswers, "answers", t.addAnswers}, {formerSpend, "spend", t.addSpend},
	} {
		err := t.scan(ctx, hash.key, func(field, value string) error {
			name, ok := formerName(field)
			if !ok {
				return nil
			}
			if err := hash.add(name, value); err != nil {
				return fmt.Errorf("%s of %q: %w", hash.what, name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := t.scan(ctx, formerQuotas, t.addQuota); err != nil {
		return err
	}
	if err := t.readEvents(ctx); err != nil {
		return err
	}
	for name, said := range t.Said {
		if !said.IsEmpty() {
			t.Quotas[name] = catalog.QuotaOf(said)
		}
	}
	return nil
}

// formerAll is a field of the days of versions that have all keys.
const formerAll = "\x00(the store is of a later version of go-ratelimit, update this program)"

// isWhole reports whether all keys are there. The first versions did not have the last of them.
func (t *taking) isWhole(ctx context.Context) (bool, error) {
	type count struct {
		all  bool
		keys int64
	}
	keys := t.log.keys[ownKeys:]
	is, err := ask(ctx, t.log, func(ctx context.Context) (is count, err error) {
		if is.all, err = t.log.store.client.HExists(ctx, keys[formerDays], formerAll).Result(); err != nil {
			return is, err
		}
		if !is.all {
			keys = keys[:formerLeast]
		}
		is.keys, err = t.log.store.client.Exists(ctx, keys...).Result()
		return is, err
	})
	return is.keys == int64(len(keys)), err
}

func (t *taking) report(err error) {
	if report := t.log.options.Report; report != nil {
		report(t.log.failed("open log", err))
	}
}

func (t *taking) addDay(name, text string) (err error) {
	t.Days[name], err = parseDay(text)
	return err
}

func (t *taking) addFound(name, text string) (err error) {
	t.Found[name], err = state.ParseFound(text)
	return err
}

func (t *taking) addSpend(name, text string) (err error) {
	t.Spend[name], err = parseSpent(text)
	return err
}

func (t *taking) addCooldown(name, text string) error {
	until, cause, err := parseOrdered(text)
	t.Cooldowns[name] = state.Cooldown{Until: time.Unix(0, until), Cause: cause}
	return err
}

func (t *taking) addPool(name, text string) error {
	models, gone, err := state.ParsePool(text)
	if err == nil && !gone {
		t.Pools[name] = models
	}
	return err
}

func (t *taking) addAnswers(name, text string) error {
	is, err := state.ParseAnswers(text)
	if err != nil {
		return nil // they are learned anew
	}
	if t.answers == nil {
		t.answers = make(map[string]state.Answers)
	}
	t.answers[name] = is
	return nil
}

// addQuota adds what a field of the quotas says: its first letter tells who says it, or that it is
// the classes.
func (t *taking) addQuota(field, text string) error {
	if field == "" {
		return nil
	}
	origin, name := state.Program, field[1:]
	switch field[0] {
	case 'c':
		if name == "" {
			t.Classes = text
		}
		return nil
	case 'p':
	case 'a':
		origin = state.Account
	default:
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

// scan calls f for each field of a hash, at least once.
func (t *taking) scan(ctx context.Context, key int, f func(field, value string) error) error {
	type page struct {
		fields []string
		cursor uint64
	}
	for cursor := uint64(0); ; {
		p, err := ask(ctx, t.log, func(ctx context.Context) (p page, err error) {
			p.fields, p.cursor, err = t.log.store.client.HScan(ctx, t.key(key), cursor, "", formerPage).Result()
			return p, err
		})
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(p.fields); i += 2 {
			if err := f(p.fields[i], p.fields[i+1]); err != nil {
				return err
			}
		}
		if cursor = p.cursor; cursor == 0 {
			return nil
		}
	}
}

// readEvents reads the stream. What was spent is in its hash with each event.
func (t *taking) readEvents(ctx context.Context) error {
	dropped := make(map[string]string)
	err := t.scan(ctx, formerHoles, func(field, value string) error { dropped[field] = value; return nil })
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
			return t.log.store.client.XRangeN(ctx, t.key(formerLog), from, "+", formerPage).Result()
		})
		if err != nil {
			return err
		}
		for _, m := range page {
			value, _ := m.Values["e"].(string)
			n, err := parseFormerEntry(m.ID, value)
			if err == nil {
				err = n.events(dropped[strconv.FormatInt(n.seq, 10)], add)
			}
			if err != nil {
				return err
			}
			from = "(" + m.ID
		}
		if len(page) < formerPage {
			return nil
		}
	}
}

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/breaker"
	"dappco.re/go/core/go-ratelimit/internal/deadline"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"github.com/redis/go-redis/v9"
)

// passing are the errors of a server that may be gone the next moment.
var passing = []string{"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MOVED", "ASK", "UNBLOCKED", "NOREPLICAS"}

// passes reports whether it may help to ask again after an error: it is none of the server, or one
// that passes.
func passes(err error) bool {
	if errors.Is(err, errBroken) {
		return false
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return !errors.Is(err, redis.ErrClosed)
	}
	for _, prefix := range passing {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// isFull reports whether a server has no memory for what it was to write.
func isFull(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && redis.HasErrorPrefix(answer, "OOM")
}

// ask calls f until it succeeds, for Options.Timeout at most. f must be idempotent. The first try
// has half of the time. It calls nothing while too much of what was asked has failed.
func ask[T any](ctx context.Context, s *Store, f func(context.Context) (T, error)) (T, error) {
	began := time.Now()
	end := began.Add(s.options.Timeout)
	for most, pause := s.options.Timeout/2, time.Millisecond; ; {
		value, err := try(ctx, s, most, f)
		if err == nil || !passes(err) {
			return value, err
		}
		s.reroute()
		left := time.Until(end)
		if ctx.Err() != nil || left <= pause {
			return value, s.health.explain(err, began)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return value, s.health.explain(err, began)
		}
		most, pause = left-pause, min(2*pause, 20*time.Millisecond)
	}
}

// try is deadline.Call for what the breaker lets pass and counts.
func try[T any](ctx context.Context, s *Store, most time.Duration, f func(context.Context) (T, error)) (value T, err error) {
	pass, ok := s.health.breaker.Enter(time.Now())
	if !ok {
		return value, s.health.refusal()
	}
	value, err = deadline.Call(ctx, most, s.heeds, f)
	now, outcome := time.Now(), breaker.Success
	switch {
	case err == nil || !passes(err): // the server has answered
	case ctx.Err() != nil:
		outcome = breaker.Unknown
	default:
		outcome = breaker.Failure
		s.health.note(err, now)
	}
	s.health.breaker.Leave(pass, now, outcome)
	return value, err
}

// reroute has the client of a Cluster ask for the masters anew, in the background. By itself it
// does so when a master says MOVED, and once a minute, but not when a master is gone.
func (s *Store) reroute() {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		cluster.ReloadState(context.Background())
	}
}

// request is a call of a script.
type request struct {
	script *redis.Script
	args   []any
	log    string // the identity of the log that it is about
	facts  *facts // where append is to find them: it looks at no more than it has to
	first  int64  // the place of the first event that is written there
}

// timed is a reply, and when it was asked for and came.
type timed struct {
	reply
	sent, received time.Time
}

// run runs a script that looks at all keys.
func (l *Log) run(ctx context.Context, script *redis.Script, args []any) (timed, error) {
	log, _ := args[0].(string)
	return l.send(ctx, &request{script: script, args: args, log: log})
}

// send runs a script, and returns its reply.
func (l *Log) send(ctx context.Context, q *request) (timed, error) {
	r, err := ask(ctx, l.store, func(ctx context.Context) (r timed, err error) {
		args := q.args
		if !l.store.heeds {
			args = slices.Clone(args) // a call before may go on
		}
		args[argExpected] = l.clock.expect()
		r.sent = time.Now()
		raw, err := l.eval(ctx, q, args)
		if err != nil {
			return r, err
		}
		r.received = time.Now()
		r.reply, err = parseReply(raw, q)
		return r, err
	})
	if err != nil {
		return timed{}, fmt.Errorf("redis: %w", err)
	}
	l.clock.heard(r.sent, r.received, r.now)
	asked := l.since(r.sent)
	if l.askedAt.Store(asked); q.facts == nil {
		l.wholeAt.Store(asked)
	}
	switch r.status {
	case statusReplaced:
		current := q.log == l.heard.position().log // it follows no other one since
		if current && l.follows.Load() && !l.replaced.Swap(true) && l.options.Replaced != nil {
			go l.options.Replaced()
		}
		return r, errReplaced
	case statusStale:
		return r, errStale
	}
	l.learn(r.facts)
	return r, nil
}

// The statuses of replies.
const (
	statusOK = iota
	statusConflict
	statusReplaced
	statusStale
)

var (
	errReplaced = fmt.Errorf("redis: %w", sharedlog.ErrReplaced)
	errStale    = errors.New("redis: a later change was written first")
	errReply    = errors.New("a reply that the script does not give")
)

// reply is what a script answers.
type reply struct {
	status  int64
	place   int64  // of the first event that was written, or else of the last one that is there
	now     int64  // the log's time in microseconds
	facts          // of the log; nothing where it is another one
	text    string // what the script has to tell besides; "" in the common case
	entries []entry
}

// parseReply reads the answer of a script. In the common case it is the time: all else is as was
// asked.
func parseReply(raw any, q *request) (r reply, err error) {
	if now, ok := raw.(int64); ok && q.facts != nil {
		return reply{place: q.first, now: now, facts: *q.facts}, nil
	}
	fields, _ := raw.([]any)
	if len(fields) != 6 {
		return r, fmt.Errorf("%w: %d fields", errReply, len(fields))
	}
	numbers := [3]int64{}
	for i := range numbers {
		if numbers[i], err = number(fields[i]); err != nil {
			return r, err
		}
	}
	r = reply{status: numbers[0], place: numbers[1], now: numbers[2]}
	if text, _ := fields[3].(string); text != "" {
		if r.facts, err = parseFacts(text); err != nil {
			return r, err
		}
	}
	r.text, _ = fields[4].(string)
	r.entries, err = parseEntries(fields[5])
	return r, err
}

// parseEntries reads entries of the stream.
func parseEntries(raw any) ([]entry, error) {
	all, _ := raw.([]any)
	entries := make([]entry, 0, len(all))
	for _, raw := range all {
		n, err := parseEntry(raw)
		if err != nil {
			return nil, err
		}
		entries = append(entries, n)
	}
	return entries, nil
}

// parseEntry reads an entry of the stream as a script returns it.
func parseEntry(raw any) (n entry, err error) {
	pair, _ := raw.([]any)
	if len(pair) != 2 {
		return n, errEntry
	}
	id, _ := pair[0].(string)
	fields, _ := pair[1].([]any)
	if len(fields) != 2 {
		return n, fmt.Errorf("%w: %s has %d fields", errEntry, id, len(fields))
	}
	value, _ := fields[1].(string)
	return newEntry(id, value)
}

// entriesOf reads entries of the stream as commands return them.
func entriesOf(messages []redis.XMessage) ([]entry, error) {
	entries := make([]entry, 0, len(messages))
	for _, m := range messages {
		value, _ := m.Values["e"].(string)
		n, err := newEntry(m.ID, value)
		if err != nil {
			return nil, err
		}
		entries = append(entries, n)
	}
	return entries, nil
}

// number reads a number that came as one or as text.
func number(raw any) (n int64, err error) {
	switch raw := raw.(type) {
	case int64:
		return raw, nil
	case string:
		if n, err = parseInt(raw); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: %v for a number", errReply, raw)
}

// words splits the text of a reply.
func (r *reply) words() []string { return strings.Fields(r.text) }

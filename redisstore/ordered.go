package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/deadline"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

var _ store.Store = (*Store)(nil)

// orderedLog is the log of a process in which the server orders commands. It implements store.Log.
//
// The log is a stream with a row for each batch. A hash has which log it is, where it begins and
// where the newest image is, a list has the pieces of that, and a string names the end of the log,
// so that an append that knows it reads no row.
type orderedLog struct {
	store   *Store
	options store.Options
	keys    []string // of the log, of what it is, and of its end

	closing  context.Context
	stop     context.CancelFunc
	keepAt   atomic.Int64 // when the keys are to be kept anew, in UnixNano
	reportAt atomic.Int64 // when missing replicas may be reported again
}

// orderedLayout is the version of the keys and of what they hold.
const orderedLayout = "3"

// errOrderedClosed is returned by a log that was closed.
var errOrderedClosed = errors.New("the log is closed")

// Open implements store.Store. It asks the server nothing.
func (s *Store) Open(ctx context.Context, options store.Options) (store.Log, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redis: open: %w", err)
	}
	if options.Report != nil {
		for _, warning := range s.warnings {
			options.Report(warning)
		}
	}
	prefix := "{" + s.options.Prefix + "}:ratelimit:" + orderedLayout + ":"
	l := &orderedLog{store: s, options: options, keys: []string{prefix + "log", prefix + "meta", prefix + "end"}}
	l.closing, l.stop = context.WithCancel(context.Background())
	return l, nil
}

// Traits tells what kind of store it is. The server's clock shows microseconds.
func (l *orderedLog) Traits() store.Traits {
	o := &l.store.options
	return store.Traits{System: "redis", Timeout: o.Timeout, MaxStale: o.MaxStale, Tick: time.Microsecond}
}

// Close implements store.Log. It leaves the client open.
func (l *orderedLog) Close() error {
	l.stop()
	return nil
}

// pageRows is how many rows a page has at most.
const pageRows = 256

// Append implements store.Log.
func (l *orderedLog) Append(ctx context.Context, after store.Position, batch []store.Entry) (store.News, error) {
	args := append(placeArgs(after), pageRows, l.keepFor(), l.isKeepDue())
	if len(batch) > 0 {
		args = append(args, len(batch), encodeRow(batch))
	}
	reply, err := l.run(ctx, orderedAppend, l.keys, args, len(batch) > 0)
	var news store.News
	if err == nil {
		news, err = decodePage(after, reply, batch)
	}
	if err != nil {
		return store.News{}, fmt.Errorf("redis: append: %w", err)
	}
	return news, nil
}

// Read implements store.Log. It looks, waits for a row, and looks again: what is told to one that
// waits does not say whether its place is still there.
func (l *orderedLog) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	for began := time.Now(); ; {
		news, err := l.Append(ctx, after, nil)
		left := wait - time.Since(began)
		if err != nil || len(news.Entries) > 0 || left <= 0 {
			return news, err
		}
		woken, err := l.await(ctx, after, min(left, l.store.longestBlock))
		if err == nil && woken && gather > 0 {
			err = l.sleep(ctx, min(gather, wait-time.Since(began)))
		}
		if err != nil {
			return store.News{}, fmt.Errorf("redis: read: %w", err)
		}
	}
}

// await waits until there is a row behind a place, and reports whether there is one.
func (l *orderedLog) await(ctx context.Context, after store.Position, most time.Duration) (bool, error) {
	block := max(most, time.Millisecond)
	done := make(chan error, 1)
	go func() { // which the server may keep for as long as it blocks
		done <- l.store.client.XRead(context.WithoutCancel(ctx), &redis.XReadArgs{
			Streams: []string{l.keys[0], fmt.Sprintf("%d-18446744073709551615", after.Seq)}, Count: 1, Block: block,
		}).Err()
	}()
	select {
	case err := <-done:
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return err == nil, err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-l.closing.Done():
		return false, errOrderedClosed
	}
}

func (l *orderedLog) sleep(ctx context.Context, span time.Duration) error {
	select {
	case <-time.After(span):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closing.Done():
		return errOrderedClosed
	}
}

// keepEvery is how often the keys are kept anew, unless they are to be kept for less.
const keepEvery = time.Minute

// keepFor returns for how many milliseconds the keys are to be kept; 0 is for ever.
func (l *orderedLog) keepFor() int64 {
	if l.options.Keep <= 0 {
		return 0
	}
	return max(l.options.Keep.Milliseconds(), 1)
}

// isKeepDue reports whether the keys are to be kept anew.
func (l *orderedLog) isKeepDue() bool {
	now, at := time.Now().UnixNano(), l.keepAt.Load()
	return now >= at && l.keepAt.CompareAndSwap(at, now+int64(min(keepEvery, l.options.Keep/4)))
}

// once is a command that the client does not send again by itself: what the second answer says
// would not be so of the first.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// run runs a script. writes says that an answer of the server that is an error means that nothing
// was written.
func (l *orderedLog) run(ctx context.Context, script *redis.Script, keys []string, args []any, writes bool) (any, error) {
	if l.closing.Err() != nil {
		return nil, notWritten(errOrderedClosed)
	}
	if err := ctx.Err(); err != nil {
		return nil, notWritten(err)
	}
	s := l.store
	reply, err := deadline.Call(ctx, s.options.Timeout, s.heeds, func(ctx context.Context) (any, error) {
		if writes && s.options.WaitReplicas > 0 {
			reply, acks, err := s.evalAndWait(ctx, script, keys, args)
			l.missReplicas(acks, err)
			return reply, err
		}
		return l.eval(ctx, script, keys, args)
	})
	var answer redis.Error
	if errors.As(err, &answer) && s.options.WaitReplicas == 0 {
		return nil, notWritten(err)
	}
	return reply, err
}

// notWritten makes an error one that says that nothing was written.
func notWritten(err error) error { return fmt.Errorf("%w (%w)", err, store.ErrNotWritten) }

// eval runs a script by its hash, and by its text where the server does not know it.
func (l *orderedLog) eval(ctx context.Context, script *redis.Script, keys []string, args []any) (any, error) {
	send := func(name, what string) (any, error) {
		words := append(make([]any, 0, 3+len(keys)+len(args)), name, what, len(keys))
		for _, key := range keys {
			words = append(words, key)
		}
		command := once{redis.NewCmd(ctx, append(words, args...)...)}
		command.SetFirstKeyPos(3)
		if err := l.store.client.Process(ctx, command); err != nil {
			return nil, err
		}
		return command.Result()
	}
	reply, err := send("evalsha", script.Hash())
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return send("eval", orderedTexts[script])
	}
	return reply, err
}

// missReplicas reports that fewer replicas than wanted have an append, once a second.
func (l *orderedLog) missReplicas(acks int64, err error) {
	want, now := int64(l.store.options.WaitReplicas), time.Now().UnixNano()
	at := l.reportAt.Load()
	if err != nil || acks >= want || l.options.Report == nil || now < at ||
		!l.reportAt.CompareAndSwap(at, now+int64(reportEvery)) {
		return
	}
	l.options.Report(fmt.Errorf("redis: %d of %d replicas have the last change in time", acks, want))
}

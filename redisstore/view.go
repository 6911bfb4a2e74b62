package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

var _ store.Viewer = (*Store)(nil)

// View implements store.Viewer. It sends commands that only read, and runs no script: a user of the
// server needs +@read and +time.
func (s *Store) View(ctx context.Context) (view store.View, err error) {
	l := newLog(s, store.Options{})
	defer l.Close()
	for range loadTries {
		if view, err = l.view(ctx); !errors.Is(err, store.ErrTrimmed) {
			break
		}
	}
	return view, l.failed("look", err)
}

func (l *Log) view(ctx context.Context) (view store.View, err error) {
	if view.Image, err = l.Load(ctx); err != nil {
		return view, err
	}
	if view.Image.IsZero() {
		return view, l.noLog(ctx)
	}
	for at := view.Image.At; ; at = view.Entries[len(view.Entries)-1].At {
		rows, err := l.rowsBehind(ctx, at)
		if err != nil {
			return view, err
		}
		entries, err := decodeRows(nil, at, rows)
		if err != nil {
			return view, err
		}
		if view.Entries = append(view.Entries, entries...); len(entries) == 0 {
			break
		}
	}
	now, err := ask(ctx, l, func(ctx context.Context) (us int64, err error) {
		time, err := l.store.client.Time(ctx).Result()
		return time.UnixMicro(), err
	})
	if view.Now = stampOf(now); err != nil {
		return view, err
	}
	return view, l.holds(ctx, view.Image.At)
}

// rowsBehind returns some rows whose last entries are behind a place.
func (l *Log) rowsBehind(ctx context.Context, at store.Position) ([]any, error) {
	return ask(ctx, l, func(ctx context.Context) ([]any, error) {
		command := redis.NewSliceCmd(ctx, "xrange", l.keys[keyLog], strconv.FormatInt(at.Seq+1, 10), "+", "count", pageRows)
		l.store.client.Process(ctx, command)
		return command.Result()
	})
}

// holds returns an error if the rows behind a place may be gone: they were read one page after the
// other.
func (l *Log) holds(ctx context.Context, at store.Position) error {
	m, err := l.meta(ctx)
	if err == nil && (m.Log != at.Log || m.Base > at.Seq) {
		err = store.ErrTrimmed
	}
	return err
}

// noLog returns why there is no log to look at.
func (l *Log) noLog(ctx context.Context) error {
	head, err := ask(ctx, l, func(ctx context.Context) (string, error) {
		return l.store.client.HGet(ctx, l.formerKey("meta"), "head").Result()
	})
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		return err
	case err == nil && !isLater(head):
		return fmt.Errorf("it has the layout of an earlier version (%s): "+
			"the first limiter of this version that opens it takes it over", formerLayout)
	}
	return errors.New("no limiter has used it yet")
}

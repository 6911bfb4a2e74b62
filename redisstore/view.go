package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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
		entries, err := l.page(ctx, at)
		if err != nil {
			return view, err
		}
		if view.Entries = append(view.Entries, entries...); len(entries) == 0 {
			break
		}
	}
	now, err := ask(ctx, l, func(ctx context.Context) (time.Time, error) { return l.store.client.Time(ctx).Result() })
	if err != nil {
		return view, err
	}
	view.Now = stampOf(now.UnixMicro())
	m, err := l.meta(ctx)
	if at := view.Image.At; err == nil && (m.Log != at.Log || m.Base > at.Seq) {
		err = store.ErrTrimmed // rows may have gone, which were read one page after the other
	}
	return view, err
}

// page returns some entries behind a place.
func (l *Log) page(ctx context.Context, at store.Position) ([]store.Entry, error) {
	rows, err := ask(ctx, l, func(ctx context.Context) ([]any, error) {
		command := redis.NewSliceCmd(ctx, "xrange", l.keys[keyLog], strconv.FormatInt(at.Seq+1, 10), "+", "count", pageRows)
		l.store.client.Process(ctx, command)
		return command.Result()
	})
	if err != nil {
		return nil, err
	}
	return decodeRows(nil, at, rows)
}

// noLog returns why there is no log to look at.
func (l *Log) noLog(ctx context.Context) error {
	head, err := ask(ctx, l, func(ctx context.Context) (string, error) {
		return l.store.client.HGet(ctx, l.formerKey("meta"), "head").Result()
	})
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		return err
	case err == nil && !strings.HasPrefix(head, "later."): // which guard.lua puts there
		return fmt.Errorf("it has the layout of an earlier version (%s): "+
			"the first limiter of this version that opens it takes it over", formerLayout)
	}
	return errors.New("no limiter has used it yet")
}

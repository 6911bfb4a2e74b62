package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

var appendScript = newScript("atend", "place", "append")

// pageRows is how many rows a page has at most.
const pageRows = 256

// Append implements store.Log.
func (l *Log) Append(ctx context.Context, after store.Position, batch []store.Entry) (store.News, error) {
	news, err := l.append(ctx, after, batch)
	return news, l.failed("append", err)
}

func (l *Log) append(ctx context.Context, after store.Position, batch []store.Entry) (news store.News, err error) {
	batch = slices.Clone(batch) // what was passed is not changed
	args := append(make([]any, 0, 7), placeText(after), l.keepFor(), pageRows)
	if n := len(batch); n > 0 {
		next := after.Seq + int64(n)
		args = append(args, encodeRow(batch), n, next, fmt.Sprintf("%d:%d:", after.Log, next))
	}
	keys := l.keys
	if keep := l.options.Keep; keep > 0 && isDue(&l.keepAt, min(keepEvery, keep/4)) {
		keys = slices.Concat(l.keys, l.former)
	}
	reply, err := l.run(ctx, appendScript, keys, args, len(batch) > 0)
	if err != nil {
		return news, err
	}
	return decodePage(after, reply, batch)
}

// Read implements store.Log. It looks, waits for a row, and looks again: what is told to one that
// waits does not say whether its place is still there.
func (l *Log) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	for began := time.Now(); ; {
		news, err := l.append(ctx, after, nil)
		left := wait - time.Since(began)
		if err != nil || len(news.Entries) > 0 || left <= 0 {
			return news, l.failed("read", err)
		}
		woken, err := l.await(ctx, after, min(left, l.store.settings.longestBlock))
		if err == nil && woken && gather > 0 { // the reader may hear of them by its appends
			return store.News{}, l.failed("read", l.sleep(ctx, min(gather, wait-time.Since(began))))
		}
		if err != nil {
			return store.News{}, l.failed("read", err)
		}
	}
}

// await waits until there is a row behind a place, and reports whether there is one.
func (l *Log) await(ctx context.Context, after store.Position, most time.Duration) (bool, error) {
	block := max(most, time.Millisecond)
	// The server may keep the connection for as long as it blocks, also when the caller has gone.
	return within(ctx, l, block+l.store.options.Timeout, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), block+l.store.options.Timeout)
		defer cancel()
		err := l.store.client.Process(ctx, newOnce(ctx, 6, "xread", "count", 1, "block", block.Milliseconds(),
			"streams", l.keys[keyLog], strconv.FormatInt(after.Seq, 10)+mostID))
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return err == nil, err
	})
}

// mostID makes a number the greatest ID of a row that has it.
const mostID = "-18446744073709551615"

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

const (
	// idleBlock is how long a read waits at the server while the limiter asks nothing.
	idleBlock = time.Second
	// lookEvery is how often a log is asked that nothing else asks: whether it is still the same
	// one, and how many share it.
	lookEvery = time.Second
	// readPage is how many entries are read at a time.
	readPage = 100
)

// follow reads what is written to the log until that is closed.
func (l *Log) follow() {
	const firstPause, longestPause = 10 * time.Millisecond, 500 * time.Millisecond
	for pause := firstPause; l.closing.Err() == nil; {
		err := l.followOnce()
		if err == nil {
			pause = firstPause
			continue
		}
		l.offline.Store(true)
		select {
		case <-l.closing.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// followOnce makes one read. One that follows a failure first makes sure that the store still has
// what was read.
func (l *Log) followOnce() error {
	at := l.heard.position()
	now := l.since(time.Now())
	if l.offline.Load() || now-l.askedAt.Load() > int64(lookEvery) {
		if _, err := l.look(l.closing, at.seq, false); err != nil && !errors.Is(err, errReplaced) && !errors.Is(err, sharedlog.ErrIncomplete) {
			return err
		}
		l.offline.Store(false)
		at = l.heard.position()
	}
	block := idleBlock
	if now-l.readAt.Load() < int64(time.Second) {
		block = l.store.options.MaxStale / 2
	}
	block = min(max(block, time.Millisecond), l.store.longestBlock)
	sent := time.Now()
	entries, err := l.await(at.seq, block)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		l.known(sent.Add(block))
		return nil
	}
	l.known(sent)
	if l.heard.add(at.epoch, entries) {
		l.notify()
	}
	l.breathe()
	return nil
}

// The reader stays behind while the limiter hears of others by its own writes: a read after each of
// these would take as much of the server's time again. It does so for longestBreath at most, and no
// longer than breath after the last write.
const breath, longestBreath = 2 * time.Millisecond, 16 * time.Millisecond

// breathe pauses the reader, unless the limiter has not asked anything lately, or waits in line.
func (l *Log) breathe() {
	pause := time.NewTimer(breath)
	defer pause.Stop()
	for breathed := time.Duration(0); breathed < longestBreath; breathed += breath {
		if l.inLine.Load() || l.since(time.Now())-l.askedAt.Load() > int64(breath) {
			return
		}
		select {
		case <-pause.C:
			pause.Reset(breath)
		case <-l.urgent:
			return
		case <-l.closing.Done():
			return
		}
	}
}

// await returns the entries behind a place once there are any, and none after a while.
func (l *Log) await(last int64, block time.Duration) ([]entry, error) {
	return try(l.closing, l.store, block+l.store.options.Timeout, func(ctx context.Context) ([]entry, error) {
		// XRead of the client would make a map of each entry.
		cmd := redis.NewCmd(ctx, "xread", "count", readPage, "block", block.Milliseconds(), "streams",
			l.keys[keyLog], itoa(last)+"-18446744073709551615")
		cmd.SetFirstKeyPos(6)
		err := l.store.client.Process(ctx, cmd)
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return parseStreams(cmd.Val())
	})
}

// parseStreams reads the entries of the one stream that XREAD answers, in either protocol.
func parseStreams(raw any) ([]entry, error) {
	switch raw := raw.(type) {
	case map[any]any:
		for _, entries := range raw {
			return parseEntries(entries)
		}
	case []any:
		for _, stream := range raw {
			if pair, ok := stream.([]any); ok && len(pair) == 2 {
				return parseEntries(pair[1])
			}
		}
	}
	return nil, fmt.Errorf("redis: xread: %w", errReply)
}

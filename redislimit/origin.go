package redislimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/keyed"
)

var addScript = redis.NewScript(source("add"))

// Origin is a keyed.Origin in Redis: the counts that the limiters of a region share. All keys of a
// prefix lie in one slot of a Cluster, so that a Replay is added by one script; take several
// Origins with prefixes of their own, for instance one for each namespace, to use more of a
// Cluster. It is safe for concurrent use, and holds nothing that has to be closed.
//
// A cell ends by itself three windows and ten seconds after the last units were added. A Replay of
// more than 1,000 cells is added in pieces of so many: others may see some of them before the rest.
// The server remembers for a week how far a process has come; a Replay that is repeated later
// counts twice.
type Origin struct {
	server *server
	prefix string
}

var _ keyed.Origin = (*Origin)(nil)

const (
	// patience bounds a call of the package keyed whose context has no end.
	patience = time.Second
	// piece is how many cells or rows one script changes: it keeps the server for about a
	// millisecond.
	piece = 1000
	// progressTTL is how long it is known which replays of a process were added.
	progressTTL = 7 * 24 * time.Hour
)

// NewOrigin returns an Origin whose keys begin with the prefix in braces. The prefix must not be
// empty, nor contain braces. The client stays the caller's. Errors match limit.ErrInvalid.
func NewOrigin(client redis.UniversalClient, prefix string) (*Origin, error) {
	if err := checkShared("new origin", client, prefix); err != nil {
		return nil, err
	}
	return &Origin{newServer(client, patience, nil), "{" + prefix + "}:keyed:" + layout + ":"}, nil
}

// cellKey returns the key of a cell. The length tells where the namespace ends.
func (o *Origin) cellKey(c keyed.Cell) string {
	return o.prefix + "cell:" + strconv.FormatInt(c.Window.Nanoseconds(), 10) + ":" + strconv.FormatInt(c.Sequence, 10) +
		":" + strconv.Itoa(len(c.Namespace)) + ":" + c.Namespace + c.Key
}

// ttl is how long a cell, or a row of one, is kept.
func ttl(c keyed.Cell) int64 { return 3*c.Window.Milliseconds() + 10_000 }

// Read returns the counts of cells, in their order.
func (o *Origin) Read(ctx context.Context, cells []keyed.Cell) ([]int64, error) {
	counts := make([]int64, 0, len(cells))
	for part := range slices.Chunk(cells, piece) {
		keys := make([]string, len(part))
		for i, c := range part {
			keys[i] = o.cellKey(c)
		}
		var err error
		counts, err = o.ask(ctx, counts, len(part), func(ctx context.Context) ([]any, error) {
			return o.server.client.MGet(ctx, keys...).Result()
		})
		if err != nil {
			return nil, fmt.Errorf("read cells: %w", err)
		}
	}
	return counts, nil
}

// Add adds the deltas of a Replay, once, and returns the counts after that.
func (o *Origin) Add(ctx context.Context, r keyed.Replay) ([]int64, error) {
	counts := make([]int64, 0, len(r.Deltas))
	number := 0
	for part := range slices.Chunk(r.Deltas, piece) {
		keys := append(make([]string, 0, len(part)+1), o.prefix+"process:"+r.Process)
		args := append(make([]any, 0, 2*len(part)+3), r.Number, number, progressTTL.Milliseconds())
		for _, d := range part {
			if d.Add < 0 {
				return nil, fmt.Errorf("add to cells: Delta.Add is %d, want 0 or more", d.Add)
			}
			keys = append(keys, o.cellKey(d.Cell))
			args = append(args, d.Add, ttl(d.Cell))
		}
		var err error
		counts, err = o.ask(ctx, counts, len(part), func(ctx context.Context) ([]any, error) {
			return addScript.Run(ctx, o.server.client, keys, args...).Slice()
		})
		if err != nil {
			return nil, fmt.Errorf("add to cells: %w", err)
		}
		number++
	}
	return counts, nil
}

// ask appends the n counts that a call returns as texts, or as nothing for 0.
func (o *Origin) ask(ctx context.Context, counts []int64, n int, call func(context.Context) ([]any, error)) ([]int64, error) {
	values, err := within(ctx, o.server, call)
	if err == nil && len(values) != n {
		err = errReply
	}
	for _, value := range values {
		text, ok := value.(string)
		if value == nil {
			text, ok = "0", true
		}
		count, failed := strconv.ParseInt(text, 10, 64)
		if err == nil && (!ok || failed != nil || count < 0) {
			err = errors.New("a count that is none")
		}
		counts = append(counts, count)
	}
	return counts, err
}

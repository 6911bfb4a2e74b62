package redislimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/keyed"
)

var (
	pushScript = redis.NewScript(source("rows", "push"))
	pullScript = redis.NewScript(source("rows", "pull"))
)

// Exchange is a keyed.Exchange in Redis: one server that all regions reach. A prefix has four keys,
// in one slot of a Cluster. A row ends three windows and ten seconds after it was raised. A server
// that loses its memory makes the next Pull begin anew. It is safe for concurrent use, and holds
// nothing that has to be closed.
type Exchange struct {
	server *server
	keys   []string
}

var _ keyed.Exchange = (*Exchange)(nil)

// NewExchange returns an Exchange whose keys begin with the prefix in braces. The prefix must not
// be empty, nor contain braces. The client stays the caller's. Errors match limit.ErrInvalid.
func NewExchange(client redis.UniversalClient, prefix string) (*Exchange, error) {
	if err := checkShared("new exchange", client, prefix); err != nil {
		return nil, err
	}
	e := &Exchange{server: newServer(client, patience, nil)}
	for _, name := range []string{"meta", "counts", "raised", "ends"} {
		e.keys = append(e.keys, "{"+prefix+"}:keyed:"+layout+":exchange:"+name)
	}
	return e, nil
}

// checkShared checks what NewOrigin and NewExchange get.
func checkShared(operation string, client redis.UniversalClient, prefix string) error {
	if prefix == "" || strings.ContainsAny(prefix, "{}") {
		return invalid(operation, "prefix is %q, want a name without braces", prefix)
	}
	return (&Options{}).check(operation, client)
}

// Push raises rows.
func (e *Exchange) Push(ctx context.Context, rows []keyed.Row) error {
	for part := range slices.Chunk(rows, piece) {
		args := make([]any, 0, 3*len(part))
		for _, r := range part {
			if r.Count < 0 {
				return fmt.Errorf("push rows: Row.Count is %d, want 0 or more", r.Count)
			}
			args = append(args, rowName(r), strconv.FormatInt(r.Count, 10), ttl(r.Cell))
		}
		_, err := within(ctx, e.server, func(ctx context.Context) (string, error) {
			return pushScript.Run(ctx, e.server.client, e.keys, args...).Text()
		})
		if err != nil {
			return fmt.Errorf("push rows: %w", err)
		}
	}
	return nil
}

// Pull returns up to 1,000 rows that were raised since cursor, and the next cursor.
func (e *Exchange) Pull(ctx context.Context, cursor string) (rows []keyed.Row, next string, err error) {
	epoch, after := parseCursor(cursor)
	values, err := within(ctx, e.server, func(ctx context.Context) ([]string, error) {
		return pullScript.Run(ctx, e.server.client, e.keys, epoch, after, piece).StringSlice()
	})
	if err == nil && (len(values) < 2 || len(values)%2 != 0) {
		err = errReply
	}
	if err != nil {
		return nil, "", fmt.Errorf("pull rows: %w", err)
	}
	if values[0] != "" {
		next = values[0] + " " + values[1]
	}
	for i := 2; i < len(values); i += 2 {
		row, err := parseRow(values[i], values[i+1])
		if err != nil {
			return nil, "", fmt.Errorf("pull rows: %w", err)
		}
		rows = append(rows, row)
	}
	return rows, next, nil
}

// parseCursor returns the epoch of a cursor and how many raises it has seen. What is no cursor is
// the beginning.
func parseCursor(cursor string) (epoch string, after uint64) {
	epoch, place, _ := strings.Cut(cursor, " ")
	after, err := strconv.ParseUint(place, 10, 53)
	if err != nil {
		return "", 0
	}
	return epoch, after
}

// rowForm is the name of a row: its window, sequence, namespace, key and region. What is in quotes
// may be any bytes.
const rowForm = "%d %d %q %q %q"

func rowName(r keyed.Row) string {
	return fmt.Sprintf(rowForm, r.Window, r.Sequence, r.Namespace, r.Key, r.Region)
}

// parseRow reads what rowName has written, and a count.
func parseRow(name, count string) (r keyed.Row, err error) {
	_, err = fmt.Sscanf(name, rowForm, &r.Window, &r.Sequence, &r.Namespace, &r.Key, &r.Region)
	if err == nil {
		r.Count, err = strconv.ParseInt(count, 10, 64)
	}
	if err != nil || r.Count < 0 || r.Window <= 0 {
		return keyed.Row{}, errors.New("a row that Push does not write")
	}
	return r, nil
}

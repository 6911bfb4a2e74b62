package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

var saveScript = newScript("place", "guard", "save")

const (
	// pieceSize is the size of a piece of an image: the server is busy with one for as long as
	// with a few appends.
	pieceSize = 128 << 10
	// piecesAtOnce is how many pieces are loaded at once.
	piecesAtOnce = 8
	// stageFor is how long the pieces stay of an image that is never shown.
	stageFor = 10 * time.Minute
	// trimRows is about how many rows are dropped at once.
	trimRows = 1000
	// loadTries is how often an image is loaded that is replaced meanwhile.
	loadTries = 5
)

// errMissing says that pieces of the image or all rows are missing, maybe because there is another
// image or log.
var errMissing = fmt.Errorf("a part of the log is missing: %w", store.ErrLost)

// Load implements store.Log. It cannot tell a store that was emptied from a new one, unless a
// limiter of this program has used it, or a part of it is left.
func (l *Log) Load(ctx context.Context) (image store.Image, err error) {
	for range loadTries {
		if image, err = l.load(ctx); !errors.Is(err, errMissing) {
			break
		}
	}
	return image, l.failed("load image", err)
}

func (l *Log) load(ctx context.Context) (image store.Image, err error) {
	m, err := l.meta(ctx)
	if err != nil {
		return image, err
	}
	if m.Log == 0 {
		return image, l.missing(ctx)
	}
	l.use()
	if image.At, err = m.place(); err != nil {
		return store.Image{}, err
	}
	bytes := []byte{}
	for n := int64(0); n < m.Pieces; n += piecesAtOnce {
		pieces, err := ask(ctx, l, func(ctx context.Context) ([]string, error) {
			return l.store.client.LRange(ctx, m.Image, n, n+piecesAtOnce-1).Result()
		})
		if err != nil {
			return store.Image{}, err
		}
		for _, piece := range pieces {
			bytes = append(bytes, piece...)
		}
	}
	if int64(len(bytes)) != m.Size {
		return image, errMissing
	}
	image.Bytes = bytes
	return image, l.checkEnd(ctx, image.At)
}

// checkEnd returns errMissing if the log went on behind its image, and has no row any more. A log
// that is shorter than it was is not told: a failover may leave one, and the living repair it.
func (l *Log) checkEnd(ctx context.Context, image store.Position) error {
	end, err := ask(ctx, l, func(ctx context.Context) (string, error) {
		return l.store.client.Get(ctx, l.keys[keyEnd]).Result()
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	var log uint64
	var seq int64
	fmt.Sscanf(end, "%d:%d:", &log, &seq) // zeros where there is no end yet
	if log != image.Log || seq <= image.Seq {
		return nil
	}
	rows, err := ask(ctx, l, func(ctx context.Context) (int64, error) {
		return l.store.client.Exists(ctx, l.keys[keyLog]).Result()
	})
	if err == nil && rows == 0 {
		err = errMissing
	}
	return err
}

// missing returns an error if there was a log, which is there no more.
func (l *Log) missing(ctx context.Context) error {
	left, err := ask(ctx, l, func(ctx context.Context) (int64, error) {
		return l.store.client.Exists(ctx, l.keys[keyLog], l.keys[keyEnd]).Result()
	})
	if err == nil && (left > 0 || l.isUsed()) {
		err = store.ErrLost
	}
	return err
}

// used are the logs that limiters of this program have used, the latest last, so that one which is
// gone is not taken for one that never was. A program may make a Store for each of its limiters.
var used struct {
	sync.Mutex
	logs []lineage
}

// lineage is where a log is: in a run of a server, under a prefix.
type lineage struct{ run, prefix string }

// mostLineages bounds the logs that a program remembers.
const mostLineages = 256

// use notes that there is a log, and isUsed reports whether there was one.
func (l *Log) use() {
	s := l.store
	s.used.Store(true)
	used.Lock()
	defer used.Unlock()
	if of := (lineage{s.run, s.options.Prefix}); s.run != "" && !slices.Contains(used.logs, of) {
		used.logs = append(used.logs, of)
		used.logs = used.logs[max(len(used.logs)-mostLineages, 0):]
	}
}

func (l *Log) isUsed() bool {
	used.Lock()
	defer used.Unlock()
	return l.store.used.Load() || slices.Contains(used.logs, lineage{l.store.run, l.store.options.Prefix})
}

// meta is what the hash says of the log.
type meta struct {
	Log    uint64 `redis:"log"`  // 0 is none
	Base   int64  `redis:"seq"`  // the log begins behind it
	Seq    int64  `redis:"iseq"` // of the place of the newest image,
	Low    uint32 `redis:"ilow"` // with the two halves of its sum
	Hash   string `redis:"ihash"`
	Image  string `redis:"image"` // the key of its pieces,
	Pieces int64  `redis:"pieces"`
	Size   int64  `redis:"size"` // of all of them
}

func (l *Log) meta(ctx context.Context) (m meta, err error) {
	found, err := ask(ctx, l, func(ctx context.Context) (*redis.SliceCmd, error) {
		found := l.store.client.HMGet(ctx, l.keys[keyMeta], "log", "seq", "iseq", "ilow", "ihash", "image", "pieces", "size")
		return found, found.Err()
	})
	if err != nil {
		return m, err
	}
	if err := found.Scan(&m); err != nil {
		return m, fmt.Errorf("%w: %w", errRow, err)
	}
	return m, nil
}

// place returns the place of the newest image.
func (m *meta) place() (store.Position, error) {
	if len(m.Hash) != hashBytes {
		return store.Position{}, fmt.Errorf("%w: the hash of an image has %d bytes", errRow, len(m.Hash))
	}
	return store.Position{Log: m.Log, Seq: m.Seq, Sum: joinSum(m.Low, binary.BigEndian.Uint32([]byte(m.Hash)))}, nil
}

// Save implements store.Log.
func (l *Log) Save(ctx context.Context, image store.Image) error {
	err := l.show(ctx, image, nil)
	if err == nil {
		l.trim(ctx)
	}
	return l.failed("save image", err)
}

// Begin implements store.Log.
func (l *Log) Begin(ctx context.Context, old uint64, image store.Image) error {
	err := l.show(ctx, image, l.former, strconv.FormatUint(old, 10), "")
	if err == nil {
		l.use()
	}
	return l.failed("begin log", err)
}

// show writes an image in pieces, and has the script show it, with more keys and arguments if it
// begins a log. With the head of a log of the layout before it does that only if the head has not
// changed; the error is store.ErrLost otherwise.
func (l *Log) show(ctx context.Context, image store.Image, more []string, rest ...any) error {
	key := l.keys[keyMeta] + ":image:" + strconv.FormatUint(rand.Uint64(), 36)
	pieces := 0
	for left := image.Bytes; len(left) > 0 || pieces == 0; pieces++ {
		piece := left[:min(len(left), pieceSize)]
		left = left[len(piece):]
		if err := l.stage(ctx, key, piece); err != nil {
			return err
		}
	}
	args := []any{placeText(image.At), pieces, len(image.Bytes), l.keepFor()}
	keys := slices.Concat(l.keys, []string{key}, more)
	status, err := l.run(ctx, saveScript, keys, append(args, rest...), true)
	if err == nil {
		err = statusOf(status)
	}
	return err
}

// stage writes a piece of an image that nobody sees yet. A piece that is written twice is one too
// many, so that the image is not shown.
func (l *Log) stage(ctx context.Context, key string, piece []byte) error {
	_, err := ask(ctx, l, func(ctx context.Context) (any, error) {
		pipe := l.store.client.Pipeline()
		pipe.RPush(ctx, key, piece)
		pipe.PExpire(ctx, key, stageFor)
		return pipe.Exec(ctx)
	})
	return err
}

// trim drops the rows that the image before the newest covers, a little at a time. What it leaves
// the next Save drops.
func (l *Log) trim(ctx context.Context) {
	m, err := l.meta(ctx)
	for dropped := int64(1); err == nil && dropped > 0; {
		dropped, err = ask(ctx, l, func(ctx context.Context) (int64, error) {
			return l.store.client.XTrimMinIDApprox(ctx, l.keys[keyLog], strconv.FormatInt(m.Base+1, 10), trimRows).Result()
		})
	}
}

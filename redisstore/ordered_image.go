package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/deadline"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

const (
	// orderedPiece is the size of a piece of an image: the server is busy with one for as long as
	// with a few appends.
	orderedPiece = 128 << 10
	// piecesAtOnce is how many pieces are loaded at once.
	piecesAtOnce = 8
	// stageFor is how long the pieces stay of an image that is never shown.
	stageFor = 10 * time.Minute
	// trimRows is about how many rows are dropped at once.
	trimRows = 1000
	// loadTries is how often an image is loaded that is replaced meanwhile.
	loadTries = 5
)

// do calls the server for one of several steps, each of which has the Timeout.
func do[T any](ctx context.Context, l *orderedLog, f func(context.Context) (T, error)) (T, error) {
	if l.closing.Err() != nil {
		var none T
		return none, errOrderedClosed
	}
	return deadline.Call(ctx, l.store.options.Timeout, l.store.heeds, f)
}

// errReplacedImage says that pieces are missing, because there is another image.
var errReplacedImage = errors.New("the image was replaced meanwhile")

// Load implements store.Log. It cannot tell a store that was emptied from a new one.
func (l *orderedLog) Load(ctx context.Context) (image store.Image, err error) {
	for range loadTries {
		if image, err = l.load(ctx); !errors.Is(err, errReplacedImage) {
			break
		}
	}
	if errors.Is(err, errReplacedImage) {
		err = fmt.Errorf("pieces of the image are missing: %w", store.ErrLost)
	}
	if err != nil {
		return image, fmt.Errorf("redis: load image: %w", err)
	}
	return image, nil
}

func (l *orderedLog) load(ctx context.Context) (image store.Image, err error) {
	meta, err := do(ctx, l, func(ctx context.Context) ([]any, error) {
		return l.store.client.HMGet(ctx, l.keys[1], "log", "iseq", "ilow", "ihash", "image", "pieces", "size").Result()
	})
	if err != nil || meta[0] == nil {
		return image, err
	}
	var m imageMeta
	if err := m.parse(meta); err != nil {
		return image, err
	}
	image.At, image.Bytes = m.at, []byte{}
	for n := int64(0); n < m.pieces; n += piecesAtOnce {
		pieces, err := do(ctx, l, func(ctx context.Context) ([]string, error) {
			return l.store.client.LRange(ctx, m.key, n, n+piecesAtOnce-1).Result()
		})
		if err != nil {
			return store.Image{}, err
		}
		if int64(len(pieces)) != min(piecesAtOnce, m.pieces-n) {
			return store.Image{At: m.at}, errReplacedImage
		}
		for _, piece := range pieces {
			image.Bytes = append(image.Bytes, piece...)
		}
	}
	if int64(len(image.Bytes)) != m.size {
		return store.Image{At: m.at}, errReplacedImage
	}
	return image, nil
}

// imageMeta is what the hash says of the newest image.
type imageMeta struct {
	at           store.Position
	key          string
	pieces, size int64
}

func (m *imageMeta) parse(meta []any) (err error) {
	var texts [7]string
	for i := range texts {
		texts[i], _ = meta[i].(string)
	}
	number := func(text string) (n int64) {
		n, e := strconv.ParseInt(text, 10, 64)
		err = errors.Join(err, e)
		return n
	}
	log, e := strconv.ParseUint(texts[0], 10, 64)
	err = errors.Join(err, e)
	m.at.Log, m.at.Seq = log, number(texts[1])
	hash := []byte(texts[3])
	if len(hash) != hashBytes {
		return fmt.Errorf("%w: the hash of an image has %d bytes", errRow, len(hash))
	}
	m.at.Sum = joinSum(number(texts[2]), uint32(hash[0])<<24|uint32(hash[1])<<16|uint32(hash[2])<<8|uint32(hash[3]))
	m.key, m.pieces, m.size = texts[4], number(texts[5]), number(texts[6])
	if err != nil {
		return fmt.Errorf("%w: %w", errRow, err)
	}
	return nil
}

// Save implements store.Log.
func (l *orderedLog) Save(ctx context.Context, image store.Image) error {
	if err := l.show(ctx, image); err != nil {
		return fmt.Errorf("redis: save image: %w", err)
	}
	l.trim(ctx)
	return nil
}

// Begin implements store.Log.
func (l *orderedLog) Begin(ctx context.Context, old uint64, image store.Image) error {
	if err := l.show(ctx, image, strconv.FormatUint(old, 10)); err != nil {
		return fmt.Errorf("redis: begin log: %w", err)
	}
	return nil
}

// show writes an image in pieces, and shows it at once; with old it begins a log in the place of
// that.
func (l *orderedLog) show(ctx context.Context, image store.Image, old ...any) error {
	key := l.keys[1] + ":image:" + strconv.FormatUint(rand.Uint64(), 36)
	pieces := int64(0)
	for left := image.Bytes; len(left) > 0 || pieces == 0; pieces++ {
		piece := left[:min(len(left), orderedPiece)]
		left = left[len(piece):]
		if err := l.stage(ctx, key, piece); err != nil {
			return err
		}
	}
	args := append(placeArgs(image.At), pieces, len(image.Bytes), l.keepFor())
	status, err := l.run(ctx, orderedSave, append(l.keys[:3:3], key), append(args, old...), true)
	if err == nil {
		err = statusOf(status)
	}
	return err
}

// stage writes a piece of an image that nobody sees yet. A piece that is written twice is one too
// many, so that the image is not shown.
func (l *orderedLog) stage(ctx context.Context, key string, piece []byte) error {
	_, err := do(ctx, l, func(ctx context.Context) (any, error) {
		pipe := l.store.client.Pipeline()
		pipe.RPush(ctx, key, piece)
		pipe.PExpire(ctx, key, stageFor)
		return pipe.Exec(ctx)
	})
	return err
}

// trim drops the rows that the image before the newest covers, a little at a time. What it leaves
// the next Save drops.
func (l *orderedLog) trim(ctx context.Context) {
	base, err := do(ctx, l, func(ctx context.Context) (string, error) {
		return l.store.client.HGet(ctx, l.keys[1], "seq").Result()
	})
	seq, parseErr := strconv.ParseInt(base, 10, 64)
	if err != nil || parseErr != nil {
		return
	}
	for dropped := int64(1); err == nil && dropped > 0; {
		dropped, err = do(ctx, l, func(ctx context.Context) (int64, error) {
			return l.store.client.XTrimMinIDApprox(ctx, l.keys[0], strconv.FormatInt(seq+1, 10), trimRows).Result()
		})
	}
}

package redisstore

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

var (
	//go:embed scripts/save.lua
	saveLua string

	saveScript = newScript(placeLua + guardLua + saveLua)
)

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

// errReplacedImage says that pieces are missing, because there is another image.
var errReplacedImage = errors.New("the image was replaced meanwhile")

// Load implements store.Log. It cannot tell a store that was emptied from a new one, unless a
// limiter of this program has used it, or a part of it is left.
func (l *Log) Load(ctx context.Context) (image store.Image, err error) {
	for range loadTries {
		if image, err = l.load(ctx); !errors.Is(err, errReplacedImage) {
			break
		}
	}
	if errors.Is(err, errReplacedImage) {
		err = fmt.Errorf("pieces of the image are missing: %w", store.ErrLost)
	}
	if err != nil {
		return image, l.failed("load image", err)
	}
	return image, nil
}

func (l *Log) load(ctx context.Context) (image store.Image, err error) {
	meta, err := ask(ctx, l, func(ctx context.Context) ([]any, error) {
		return l.store.client.HMGet(ctx, l.keys[keyMeta], "log", "iseq", "ilow", "ihash", "image", "pieces", "size").Result()
	})
	if err != nil {
		return image, err
	}
	if meta[0] == nil {
		return image, l.missing(ctx)
	}
	l.use()
	var m imageMeta
	if err := m.parse(meta); err != nil {
		return image, err
	}
	image.At, image.Bytes = m.at, []byte{}
	for n := int64(0); n < m.pieces; n += piecesAtOnce {
		pieces, err := ask(ctx, l, func(ctx context.Context) ([]string, error) {
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
	m.at.Sum = joinSum(uint32(number(texts[2])), binary.BigEndian.Uint32(hash))
	m.key, m.pieces, m.size = texts[4], number(texts[5]), number(texts[6])
	if err != nil {
		return fmt.Errorf("%w: %w", errRow, err)
	}
	return nil
}

// Save implements store.Log.
func (l *Log) Save(ctx context.Context, image store.Image) error {
	if err := l.show(ctx, image, nil); err != nil {
		return l.failed("save image", err)
	}
	l.trim(ctx)
	return nil
}

// Begin implements store.Log.
func (l *Log) Begin(ctx context.Context, old uint64, image store.Image) error {
	if err := l.begin(ctx, old, image, ""); err != nil {
		return l.failed("begin log", err)
	}
	return nil
}

// begin begins a log. With the head of a log of the layout before it does so only if that has not
// changed; the error is store.ErrLost otherwise.
func (l *Log) begin(ctx context.Context, old uint64, image store.Image, formerHead string) error {
	err := l.show(ctx, image, l.keys[ownKeys:], strconv.FormatUint(old, 10), formerHead)
	if err == nil {
		l.use()
	}
	return err
}

// show writes an image in pieces, and has the script show it, with more keys and arguments.
func (l *Log) show(ctx context.Context, image store.Image, more []string, rest ...any) error {
	key := l.keys[keyMeta] + ":image:" + strconv.FormatUint(rand.Uint64(), 36)
	pieces := int64(0)
	for left := image.Bytes; len(left) > 0 || pieces == 0; pieces++ {
		piece := left[:min(len(left), pieceSize)]
		left = left[len(piece):]
		if err := l.stage(ctx, key, piece); err != nil {
			return err
		}
	}
	place := placeOf(image.At)
	args := []any{place.log, place.seq, place.low, place.hash, pieces, len(image.Bytes), l.keepFor()}
	keys := append(append(make([]string, 0, len(l.keys)+1), l.keys[:ownKeys]...), key)
	status, err := l.run(ctx, saveScript, append(keys, more...), append(args, rest...), true)
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
	base, err := ask(ctx, l, func(ctx context.Context) (string, error) {
		return l.store.client.HGet(ctx, l.keys[keyMeta], "seq").Result()
	})
	seq, parseErr := strconv.ParseInt(base, 10, 64)
	if err != nil || parseErr != nil {
		return
	}
	for dropped := int64(1); err == nil && dropped > 0; {
		dropped, err = ask(ctx, l, func(ctx context.Context) (int64, error) {
			return l.store.client.XTrimMinIDApprox(ctx, l.keys[keyLog], strconv.FormatInt(seq+1, 10), trimRows).Result()
		})
	}
}

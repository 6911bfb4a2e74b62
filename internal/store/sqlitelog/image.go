//go:build !nosqlite

package sqlitelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

const (
	// pieceSize is how much of an image is written while others wait.
	pieceSize = 128 << 10
	pieceBits = 24
	// dropRows and dropPieces are how much is deleted while others wait.
	dropRows   = 1000
	dropPieces = 4
)

// pieces returns the pieces of an image with their numbers. Also an empty one has a piece.
func pieces(b []byte) iter.Seq2[int64, []byte] {
	return func(yield func(int64, []byte) bool) {
		for n := int64(0); len(b) > 0 || n == 0; n++ {
			size := min(len(b), pieceSize)
			if !yield(n, b[:size]) {
				return
			}
			b = b[size:]
		}
	}
}

var insertPiece = piecesTable.InsertInto("INSERT OR REPLACE")

func (r rows) putPiece(image, n int64, piece []byte) error {
	if piece == nil {
		piece = []byte{} // and not NULL
	}
	_, err := r.Exec(insertPiece, image<<pieceBits|n, piece)
	return err
}

// nextImage returns a number for an image that is about to be saved. Its first piece takes it.
func (r rows) nextImage(h *head) (int64, error) {
	last, err := r.Number("SELECT ifnull(max(id), 0) FROM log_pieces")
	return max(last>>pieceBits, h.image.id) + 1, err
}

// load returns the newest image.
func (r rows) load() (image store.Image, err error) {
	h, err := r.head()
	switch {
	case err != nil:
		return image, err
	case h.end.Log == 0 && h.had:
		return image, fmt.Errorf("the database was damaged or gone: %w", store.ErrLost)
	case h.end.Log == 0:
		return image, nil
	}
	b := make([]byte, 0, min(max(h.image.size, 0), 1<<24)) // a damaged size is no reason to take memory
	err = r.Each(func(found *sql.Rows) error {
		var piece sql.RawBytes
		err := sqlitestate.Scan(found, "log_pieces", &piece)
		b = append(b, piece...)
		return err
	}, "SELECT piece FROM log_pieces WHERE id BETWEEN ? AND ? ORDER BY id",
		h.image.id<<pieceBits, (h.image.id+1)<<pieceBits-1)
	if err == nil && int64(len(b)) != h.image.size {
		err = sqlitestate.Damaged("%w: the image has %d bytes, want %d", errDamaged, len(b), h.image.size)
	}
	return store.Image{At: h.image.at, Bytes: b}, err
}

// checkSave returns why an image cannot be the newest, and whether the newest is in the log.
func (r rows) checkSave(h *head, at store.Position) (newest bool, err error) {
	if newest, err = r.has(h, h.image.at); err != nil {
		return false, err
	}
	if newest && at.Log == h.end.Log && at.Seq <= h.image.at.Seq {
		return false, store.ErrOlder
	}
	if _, err := r.page(h, at); err != nil {
		return false, fmt.Errorf("place of the image: %w", err)
	}
	return newest, nil
}

// errDropped tells that the save of another image, staged later, has dropped pieces of this one.
var errDropped = fmt.Errorf("another image was saved meanwhile: %w", store.ErrLost)

// install makes an image the newest, which was staged, in a log that begins at a place. The stamp
// stands beside that.
func (r rows) install(image imageRow, base store.Position, stamp store.Stamp) error {
	size, err := r.Number("SELECT ifnull(sum(length(piece)), 0) FROM log_pieces WHERE id BETWEEN ? AND ?",
		image.id<<pieceBits, (image.id+1)<<pieceBits-1)
	if err != nil {
		return err
	}
	if size != image.size {
		return errDropped
	}
	_, err = r.Exec(`UPDATE log_state SET log = ?, base_seq = ?, base_sum = ?, instant = ?, wall = ?,
		image = ?, image_seq = ?, image_sum = ?, image_size = ?`,
		int64(base.Log), base.Seq, int64(base.Sum), stamp.Instant, stamp.Wall,
		image.id, image.at.Seq, int64(image.at.Sum), image.size)
	return err
}

// show makes an image of the log the newest, which begins anew behind the image before; but not if
// that is none of this log, because its end was lost.
func (r rows) show(h *head, image imageRow) error {
	newest, err := r.checkSave(h, image.at)
	if err != nil {
		return err
	}
	base := h.base
	if newest {
		base = h.image.at
	}
	return r.install(image, base, h.last)
}

// begin makes a log that begins with an image.
func (r rows) begin(image imageRow, stamp store.Stamp) error {
	if _, err := r.Exec("DELETE FROM log_entries"); err != nil {
		return err
	}
	return r.install(image, image.at, stamp)
}

// beginWith makes a log that begins at a moment with what was taken over.
func (r rows) beginWith(bytes []byte, now store.Stamp) error {
	image := imageRow{id: 1, size: int64(len(bytes)), at: store.Position{Log: rand.Uint64() | 1, Sum: rand.Uint64()}}
	for n, piece := range pieces(bytes) {
		if err := r.putPiece(image.id, n, piece); err != nil {
			return err
		}
	}
	return r.begin(image, now)
}

// stage writes the pieces of an image, which nobody sees yet, if check lets it.
func (l *Log) stage(ctx context.Context, image store.Image, check func(rows, *head) error) (imageRow, error) {
	row := imageRow{at: image.At, size: int64(len(image.Bytes))}
	for n, piece := range pieces(image.Bytes) {
		err := l.change(ctx, func(r rows, h *head) (err error) {
			if n == 0 {
				if err := check(r, h); err != nil {
					return err
				}
				if row.id, err = r.nextImage(h); err != nil {
					return err
				}
			}
			return r.putPiece(row.id, n, piece)
		})
		if err != nil {
			return row, err
		}
	}
	return row, nil
}

// Save implements store.Log.
func (l *Log) Save(ctx context.Context, image store.Image) error {
	err := l.save(ctx, image)
	for errors.Is(err, errDropped) { // by an image that is newer than the last time, but not than this
		err = l.save(ctx, image)
	}
	if err != nil {
		return fmt.Errorf("save image: %w", err)
	}
	l.sweepLives()
	l.drop(ctx)
	return nil
}

func (l *Log) save(ctx context.Context, image store.Image) error {
	row, err := l.stage(ctx, image, func(r rows, h *head) error {
		_, err := r.checkSave(h, image.At)
		return err
	})
	if err != nil {
		return err
	}
	return l.change(ctx, func(r rows, h *head) error { return r.show(h, row) })
}

var errBegan = errors.New("the log has begun")

// Begin implements store.Log.
func (l *Log) Begin(ctx context.Context, old uint64, image store.Image) error {
	check := func(_ rows, h *head) error {
		switch h.end.Log {
		case image.At.Log:
			return errBegan
		case old:
			return nil
		}
		return fmt.Errorf("another log is there: %w", store.ErrLost)
	}
	row, err := l.stage(ctx, image, check)
	if err == nil {
		err = l.change(ctx, func(r rows, h *head) error {
			if err := check(r, h); err != nil {
				return err
			}
			if err := r.begin(row, l.clock.stamp(h)); err != nil {
				return err
			}
			return l.lock.Load().SetMark(markOf(image.At))
		})
	}
	if err != nil && !errors.Is(err, errBegan) {
		return fmt.Errorf("begin log: %w", err)
	}
	l.drop(ctx)
	return nil
}

// drop deletes, a little at a time, what the log has no use for any more. What it leaves behind the
// next Save drops.
func (l *Log) drop(ctx context.Context) {
	var err error
	for more := true; more && err == nil; {
		err = l.change(ctx, func(r rows, h *head) error {
			entries, err := r.Exec(`DELETE FROM log_entries WHERE seq IN
				(SELECT seq FROM log_entries WHERE seq <= ? ORDER BY seq LIMIT ?)`, h.base.Seq, dropRows)
			if err != nil {
				return err
			}
			pieces, err := r.Exec(`DELETE FROM log_pieces WHERE id IN
				(SELECT id FROM log_pieces WHERE id < ? ORDER BY id LIMIT ?)`, h.image.id<<pieceBits, dropPieces)
			if err != nil {
				return err
			}
			droppedRows, _ := entries.RowsAffected()
			droppedPieces, _ := pieces.RowsAffected()
			more = droppedRows == dropRows || droppedPieces == dropPieces
			return nil
		})
	}
}

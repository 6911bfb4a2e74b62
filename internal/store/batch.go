package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// batchVersion is the first byte of a batch.
const batchVersion = 1

// EncodeBatch returns the bytes of a batch, for stores that keep it as one value: version, count,
// and of each entry the difference of process, number and expected time from the entry before it,
// and the command. Place and stamp of the entries are the store's matter.
func EncodeBatch(entries []Entry) []byte {
	size := 16
	for i := range entries {
		size += len(entries[i].Command) + 24
	}
	b := append(make([]byte, 0, size), batchVersion)
	b = binary.AppendUvarint(b, uint64(len(entries)))
	var last Entry
	for _, e := range entries {
		b = binary.AppendVarint(b, e.Process-last.Process)
		b = binary.AppendVarint(b, e.N-last.N)
		b = binary.AppendVarint(b, e.Expect-last.Expect)
		b = binary.AppendUvarint(b, uint64(len(e.Command)))
		b = append(b, e.Command...)
		last = e
	}
	return b
}

var errBatch = errors.New("malformed batch")

// DecodeBatch is the reverse of EncodeBatch. It refuses what EncodeBatch cannot have made. The
// commands are parts of b.
func DecodeBatch(b []byte) ([]Entry, error) { return AppendBatch(nil, b) }

// AppendBatch appends what DecodeBatch returns.
func AppendBatch(entries []Entry, b []byte) ([]Entry, error) {
	if len(b) == 0 || b[0] != batchVersion {
		return nil, fmt.Errorf("%w: not of version %d", errBatch, batchVersion)
	}
	d := decoder{left: b[1:]}
	count := d.uvarint()
	if count > uint64(len(d.left))/4 { // an entry has four bytes at least
		return nil, fmt.Errorf("%w: %d entries in %d bytes", errBatch, count, len(b))
	}
	entries = slices.Grow(entries, int(count))
	var last Entry
	for range count {
		last.Process += d.varint()
		last.N += d.varint()
		last.Expect += d.varint()
		last.Command = d.bytes(d.uvarint())
		entries = append(entries, last)
	}
	if d.broken || len(d.left) > 0 || count == 0 {
		return nil, fmt.Errorf("%w: %d entries in %d bytes", errBatch, count, len(b))
	}
	return entries, nil
}

// decoder takes values off bytes until they break.
type decoder struct {
	left   []byte
	broken bool
}

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.left)
	d.take(size)
	return n
}

func (d *decoder) varint() int64 {
	n, size := binary.Varint(d.left)
	d.take(size)
	return n
}

func (d *decoder) take(size int) {
	if size <= 0 {
		d.broken, d.left = true, nil
		return
	}
	d.left = d.left[size:]
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.left)) {
		d.broken, d.left = true, nil
		return nil
	}
	b := d.left[:n:n]
	d.left = d.left[n:]
	return b
}

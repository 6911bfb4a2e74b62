package fsx

import (
	"encoding/binary"
	"fmt"
)

// markAt is the offset of the mark in the file, in bytes. The first byte is the locked
// one, which on Windows no other handle can read.
const markAt = 8

// SetMark writes a watermark into the lock file: the sequence number of the last change
// to whatever the lock guards. Other processes compare it with HasMark, and so learn
// whether there are changes without reading those.
//
// The lock must be held, and the mark written before the change is: nobody would look
// for a change whose mark failed, so that must not be made then.
func (l *FairLock) SetMark(seq int64) error {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(seq))
	if _, err := l.file.WriteAt(b[:], markAt); err != nil {
		return fmt.Errorf("mark lock file: %w", err)
	}
	return nil
}

// HasMark reports whether the watermark is seq. It needs no lock, and reports false where
// there is no mark or it cannot be read. It may be called beside the other methods.
func (l *FairLock) HasMark(seq int64) bool {
	var b [8]byte
	_, err := l.file.ReadAt(b[:], markAt)
	return err == nil && int64(binary.LittleEndian.Uint64(b[:])) == seq
}

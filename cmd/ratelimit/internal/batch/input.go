package batch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// Input is IN, which can be read more than once.
type Input struct {
	file *os.File
	temp bool // it is a copy of what can be read once alone
}

// OpenInput opens a file, or stdin for the name "-". What can be read once alone it copies to a
// temporary file. What is compressed with gzip is known by its first bytes.
func OpenInput(name string, stdin io.Reader) (*Input, error) {
	file, ok := stdin.(*os.File)
	if name != "-" {
		opened, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		file, ok = opened, true
	}
	if ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return &Input{file: file}, nil
		}
		stdin = file
		defer file.Close()
	}
	temp, err := os.CreateTemp("", "ratelimit-batch-")
	if err != nil {
		return nil, err
	}
	in := &Input{temp, true}
	if _, err = io.Copy(temp, stdin); err != nil {
		in.Close()
		return nil, fmt.Errorf("read the input: %w", err)
	}
	os.Remove(temp.Name()) // where the system lets an open file go; else Close does it
	return in, nil
}

// Close closes the file.
func (in *Input) Close() error {
	err := in.file.Close()
	if in.temp {
		os.Remove(in.file.Name())
	}
	return err
}

// Is reports whether a path leads to the file of the input.
func (in *Input) Is(path string) bool {
	own, err := in.file.Stat()
	if err != nil {
		return false
	}
	other, err := os.Stat(path)
	return err == nil && os.SameFile(own, other)
}

// lines returns a reader from the beginning. What it reads goes to tee as well, if there is one.
func (in *Input) lines(tee io.Writer) (*lineReader, error) {
	if _, err := in.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	buffered := bufio.NewReaderSize(in.file, 256<<10)
	var from io.Reader = buffered
	if head, _ := buffered.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		zip, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, err
		}
		from = zip
	}
	if tee != nil {
		from = io.TeeReader(from, tee)
	}
	return newLineReader(from), nil
}

// lineReader reads lines of bounded length.
type lineReader struct {
	from   *bufio.Reader
	number int // of the last line, from 1
	buffer []byte
	ended  int64 // bytes up to the end of the last line that has one
	torn   bool  // the last line has no end
}

func newLineReader(from io.Reader) *lineReader {
	return &lineReader{from: bufio.NewReaderSize(from, 256<<10)}
}

var errLongLine = fmt.Errorf("the line has more than %d MiB", maxLine>>20)

// next returns the next line without its end, which is valid until the next one is read; with
// errLongLine the beginning of one that is too long; io.EOF behind the last one.
func (r *lineReader) next() ([]byte, error) {
	r.buffer = r.buffer[:0]
	size := 0
	for {
		part, err := r.from.ReadSlice('\n')
		size += len(part)
		if len(r.buffer) <= maxLine {
			r.buffer = append(r.buffer, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (err != io.EOF || size == 0):
			return nil, err
		}
		r.number++
		if r.torn = err == io.EOF; !r.torn {
			r.ended += int64(size)
		}
		break
	}
	text := bytes.TrimRight(r.buffer, "\r\n")
	if r.number == 1 {
		text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	}
	if len(text) > maxLine {
		return text[:1024], errLongLine
	}
	return text, nil
}

package yamlfile

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

const (
	// firstLine announces lastLine. Files of versions before and files written by hand have
	// neither. Both are comments, which every YAML reader passes over.
	firstLine = `# A state file of go-ratelimit, cut off unless it ends with the line "# end of state".`
	lastLine  = "# end of state"

	byteOrderMark = "\ufeff"
	// maxAround is how much may stand before firstLine, in bytes of comments, and behind lastLine,
	// in bytes of white space.
	maxAround = 4096
)

var (
	errNoBytes = errors.New("the file is empty: it was cut off")
	errCut     = errors.New(`the file was cut off: it does not end with the line "` + lastLine + `"`)
)

// checkWhole returns an error for a file that was cut off: an empty one, one that ends within
// firstLine, and one with firstLine that does not end with lastLine. It does not matter which line
// ends an editor has made of ours, but lastLine has to have one: so no beginning of a file of
// EncodeState is taken for a whole one. Before firstLine a person may have put comments.
func checkWhole(f io.ReadSeeker) error {
	head, err := io.ReadAll(io.LimitReader(f, maxAround))
	if err != nil {
		return err
	}
	if len(head) == 0 {
		return errNoBytes
	}
	if strings.HasPrefix(byteOrderMark, string(head)) {
		return errCut
	}
	rest := strings.TrimPrefix(string(head), byteOrderMark)
	for rest != "" {
		end := strings.IndexAny(rest, "\r\n") + 1
		if end == 0 {
			end = len(rest)
		}
		line := strings.TrimSpace(rest[:end])
		switch {
		case strings.HasPrefix(line, firstLine):
			return checkTail(f)
		case end == len(rest) && line != "" && strings.HasPrefix(firstLine, line):
			return errCut
		case line != "" && line != "---" && line[0] != '#':
			return nil
		}
		rest = rest[end:]
	}
	return nil
}

func checkTail(f io.ReadSeeker) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := f.Seek(max(0, size-maxAround), io.SeekStart); err != nil {
		return err
	}
	tail, err := io.ReadAll(io.LimitReader(f, maxAround))
	if err != nil {
		return err
	}
	text := bytes.TrimRight(tail, " \t\r\n")
	before, found := bytes.CutSuffix(text, []byte(lastLine))
	if !found || len(before) == 0 {
		return errCut
	}
	// The line before has the same end, of which nothing is missing then.
	end := before[len(before)-1]
	if end != '\r' && end != '\n' || !bytes.Contains(tail[len(text):], []byte{end}) {
		return errCut
	}
	return nil
}

package yamlstate

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
	// maxTail is how much an editor may add behind lastLine, in bytes of white space.
	maxTail = 4096
)

var (
	errNoBytes = errors.New("the file is empty: it was cut off")
	errCut     = errors.New(`the file was cut off: it does not end with the line "` + lastLine + `"`)
)

// checkWhole returns an error for a file that was cut off: an empty one, a beginning of firstLine,
// and one with firstLine that does not end with lastLine. It does not matter which line ends an
// editor has made of ours, but lastLine has to have one: so no beginning of a file of Encode is
// taken for a whole one.
func checkWhole(f io.ReadSeeker) error {
	head, err := io.ReadAll(io.LimitReader(f, int64(len(byteOrderMark+firstLine))))
	switch begin := strings.TrimPrefix(string(head), byteOrderMark); {
	case err != nil:
		return err
	case len(head) == 0:
		return errNoBytes
	case strings.HasPrefix(begin, firstLine):
		return checkTail(f)
	case strings.HasPrefix(firstLine, begin):
		return errCut
	}
	return nil
}

func checkTail(f io.ReadSeeker) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := f.Seek(max(0, size-maxTail), io.SeekStart); err != nil {
		return err
	}
	tail, err := io.ReadAll(io.LimitReader(f, maxTail))
	if err != nil {
		return err
	}
	text := bytes.TrimRight(tail, " \t\r\n")
	before, found := bytes.CutSuffix(text, []byte(lastLine))
	if !found || !bytes.ContainsAny(tail[len(text):], "\r\n") || len(bytes.TrimRight(before, "\r\n")) == len(before) {
		return errCut
	}
	return nil
}

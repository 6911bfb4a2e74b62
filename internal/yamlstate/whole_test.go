package yamlstate

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// No beginning of a file of Encode is read, with whichever line ends.
func TestNoBeginningIsWhole(t *testing.T) {
	var file bytes.Buffer
	if err := Encode(&file, everyField(time.Now()), time.Now()); err != nil {
		t.Fatal(err)
	}
	for name, whole := range map[string]string{
		"as written":      file.String(),
		"CRLF":            strings.ReplaceAll(file.String(), "\n", "\r\n"),
		"CR":              strings.ReplaceAll(file.String(), "\n", "\r"),
		"byte order mark": byteOrderMark + file.String(),
		"indented":        " " + file.String(),
		"a comment":       "# by hand\n\n" + file.String(),
		"a comment, CRLF": "# by hand\r\n" + strings.ReplaceAll(file.String(), "\n", "\r\n"),
		"a document mark": "---\n" + file.String(),
	} {
		begin := strings.Index(whole, firstLine)
		if strings.HasPrefix(whole, byteOrderMark) {
			begin = -1 // no part of the mark is a file
		}
		if _, err := Decode(strings.NewReader(whole)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := begin + 1; n < len(whole); n++ {
			s, err := Decode(strings.NewReader(whole[:n]))
			if s != nil || n > len(byteOrderMark) && !errors.Is(err, errCut) || err == nil {
				t.Errorf("%s, cut after %d of %d bytes: %v", name, n, len(whole), err)
			}
		}
	}
}

// What follows the last line is white space, and of that no more than an editor would add.
func TestTailIsBounded(t *testing.T) {
	for spaces, want := range map[int]error{0: nil, 100: nil, maxAround: errCut} {
		_, err := Decode(strings.NewReader(firstLine + "\nstate: {}\n" + lastLine + "\n" + strings.Repeat("\n", spaces)))
		if !errors.Is(err, want) {
			t.Errorf("%d more lines: %v, want %v", spaces, err, want)
		}
	}
}

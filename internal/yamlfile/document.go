package yamlfile

import (
	"bytes"
	"errors"
	"io"

	"gopkg.in/yaml.v3"
)

// parseDocument returns the root of the only document in data, nil if there is none. The error of
// the YAML library names the line. The caller bounds the size of data, and checks the nodes:
// anchors, aliases, tags and duplicate keys are still there.
func parseDocument(data []byte) (*yaml.Node, error) {
	if tooDense(data) {
		return nil, errors.New("too many elements for its size")
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("a second document")
	}
	if doc.Kind == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// tooDense reports whether a document has far more elements than a file of ours of its size has:
// more than one in 16 bytes. The library allocates up to a kilobyte for each, before anyone can
// look at it.
func tooDense(data []byte) bool {
	elements := 0
	for _, mark := range []string{",", "[", "{", "?", "#", "- ", "-\t", "\n", "\r", "\u0085", "\u2028", "\u2029"} {
		elements += bytes.Count(data, []byte(mark))
	}
	for _, pair := range []string{",\n", "[\n", "{\n", "\r\n"} { // indented JSON, and the line ends of Windows
		elements -= bytes.Count(data, []byte(pair))
	}
	return elements > 8192+len(data)/16
}

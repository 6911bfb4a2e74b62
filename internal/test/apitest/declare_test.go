package apitest

import (
	"bytes"
	"fmt"
	"go/constant"
	"go/types"
	"slices"
	"strings"
)

// declarations returns the exported declarations of a package, one a line and sorted: constants
// with their values, variables, functions, types, and of each type the exported fields with their
// tags and the exported methods, promoted ones included. Names of other packages carry their import
// path.
func declarations(p *types.Package) (lines []string, err error) {
	scope := p.Scope()
	for _, name := range scope.Names() {
		object := scope.Lookup(name)
		if !object.Exported() {
			continue
		}
		w := writer{types.RelativeTo(p)}
		switch object := object.(type) {
		case *types.Const:
			lines = append(lines, fmt.Sprintf("const %s %s = %s", name, w.text(object.Type()), value(object.Val())))
		case *types.Var:
			lines = append(lines, "var "+name+" "+w.text(object.Type()))
		case *types.Func:
			lines = append(lines, "func "+name+w.signature(object.Signature()))
		case *types.TypeName:
			lines = append(lines, w.typeLines(object)...)
		}
	}
	for _, line := range lines {
		if strings.Contains(line, "invalid type") || strings.HasSuffix(line, "= unknown") {
			err = fmt.Errorf("declarations of %s: cannot resolve %q", p.Path(), line)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines), err
}

// writer writes types, each on one line.
type writer struct {
	qualifier types.Qualifier // writes the names of packages
}

func (w *writer) text(t types.Type) string { return types.TypeString(t, w.qualifier) }

// signature returns what follows a function's name.
func (w *writer) signature(s *types.Signature) string {
	var b bytes.Buffer
	types.WriteSignature(&b, s, w.qualifier)
	return b.String()
}

// parameters returns the type parameters of a declaration, with their constraints.
func (w *writer) parameters(list *types.TypeParamList) string {
	var parts []string
	for parameter := range list.TypeParams() {
		parts = append(parts, parameter.Obj().Name()+" "+w.text(parameter.Constraint()))
	}
	if len(parts) == 0 {
		return ""
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// value returns a constant's value. Floats are rounded, as their exact form has hundreds of digits.
func value(v constant.Value) string {
	if v.Kind() == constant.Float {
		return v.String()
	}
	return v.ExactString()
}

// typeLines returns the lines of a declared type.
func (w *writer) typeLines(name *types.TypeName) (lines []string) {
	head := "type " + name.Name()
	if name.IsAlias() {
		alias := name.Type().(*types.Alias)
		return []string{head + w.parameters(alias.TypeParams()) + " = " + w.text(alias.Rhs())}
	}
	named := name.Type().(*types.Named)
	head += w.parameters(named.TypeParams())
	switch under := named.Underlying().(type) {
	case *types.Struct:
		lines = append(lines, head+" struct")
		for _, field := range w.fields(under, map[types.Type]bool{named: true}) {
			lines = append(lines, head+" struct, "+field)
		}
	case *types.Interface:
		lines = append(lines, head+" interface")
		for i := range under.NumEmbeddeds() {
			lines = append(lines, head+" interface, embedded "+w.text(under.EmbeddedType(i)))
		}
		for i := range under.NumExplicitMethods() {
			if method := under.ExplicitMethod(i); method.Exported() {
				lines = append(lines, head+" interface, "+method.Name()+w.signature(method.Signature()))
			} else {
				lines = append(lines, head+" interface, unexported methods")
			}
		}
		return lines
	default:
		lines = append(lines, head+" "+w.text(under))
	}
	return append(lines, w.methods(named)...)
}

// methods returns a line for each exported method that a variable of the type has.
func (w *writer) methods(named *types.Named) (lines []string) {
	receiver := named.Obj().Name()
	if parameters := named.TypeParams(); parameters.Len() > 0 {
		var names []string
		for parameter := range parameters.TypeParams() {
			names = append(names, parameter.Obj().Name())
		}
		receiver += "[" + strings.Join(names, ", ") + "]"
	}
	ofValue := types.NewMethodSet(named)
	for selection := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		method := selection.Obj().(*types.Func)
		if !method.Exported() {
			continue
		}
		star := "*"
		if ofValue.Lookup(method.Pkg(), method.Name()) != nil {
			star = ""
		}
		// A generic type's method names the parameters as its own receiver does.
		signature := selection.Type().(*types.Signature)
		lines = append(lines, fmt.Sprintf("method (%s%s) %s%s", star, receiver, method.Name(), w.signature(signature)))
	}
	return lines
}

// fields returns the exported fields of a struct, those promoted from embedded unexported structs
// included. Structs that were seen are not entered again.
func (w *writer) fields(s *types.Struct, seen map[types.Type]bool) (fields []string) {
	for i := range s.NumFields() {
		field, tag := s.Field(i), s.Tag(i)
		if field.Exported() {
			text := field.Name() + " " + w.text(field.Type())
			if field.Embedded() {
				text = "embedded " + w.text(field.Type())
			}
			if tag != "" {
				text += " `" + tag + "`"
			}
			fields = append(fields, text)
			continue
		}
		inner := field.Type()
		if pointer, ok := inner.(*types.Pointer); ok {
			inner = pointer.Elem()
		}
		embedded, ok := inner.Underlying().(*types.Struct)
		if !field.Embedded() || !ok || seen[inner] {
			continue
		}
		seen[inner] = true
		fields = append(fields, w.fields(embedded, seen)...)
	}
	return fields
}

# Lines as texts of C, one below the other: the page of the server becomes a part of its program.
s/[\\"]/\\&/g
s/^/"/
s/$/\\n"/

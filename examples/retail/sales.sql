SELECT lines.InvoiceNo, lines.StockCode, lines.Quantity, lines.amount, lines.Country, lines.invoice_date,
       customers.city, products.list_price
FROM lines
LEFT JOIN customers ON customers.CustomerID = lines.CustomerID AND customers.is_current
LEFT JOIN products ON products.StockCode = lines.StockCode
